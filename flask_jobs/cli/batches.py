"""`batches` and `prune`: what is counted together, and what nobody will look at any more."""

from __future__ import annotations

import click

from .. import clock
from ..driver import PORTION, RunsBatches
from ..explain import duration, relative
from ..stored import StoredBatch
from . import documents, exit_codes, parameters
from .confirm import confirm, force_option
from .failed import flush_older
from .group import jobs_cli
from .interruption import Interruption
from .output import counted_jobs, json_option, show_json, show_table
from .reports import end_with
from .target import Target, connection_option


@jobs_cli.command()
@click.option("--limit", type=parameters.LIMIT, default=50, show_default=True, help="How many at most.")
@click.option("--before", metavar="ID", help="Go on with those older than this one.")
@connection_option
@json_option
def batches(*, limit: int, before: str | None, connection: str | None, as_json: bool) -> None:
    """List the batches, newest first."""
    target = Target.of(connection)
    found = target.batches().batches(before=before, limit=limit)
    if as_json:
        show_json({"connection": target.name, "batches": [documents.batch(batch) for batch in found]})
        return
    if not found:
        click.echo("No batches.")
        return
    now = clock.now()
    columns = ("ID", "Name", "Pending", "Done", "Failed", "Skipped", "State")
    show_table(columns, [_row(batch, now) for batch in found])
    if len(found) == limit:
        click.echo(f"For more: --before {found[-1].id}")


@jobs_cli.command()
@click.option(
    "--hours",
    type=parameters.seconds,
    metavar="HOURS",
    default="24",
    show_default=True,
    help="What is so old, or older.",
)
@click.option("--failed", "only_failed", is_flag=True, help="Only failed jobs.")
@click.option("--batches", "only_batches", is_flag=True, help="Only batches that have finished.")
@force_option
@connection_option
@json_option
def prune(
    *, hours: float, only_failed: bool, only_batches: bool, force: bool, connection: str | None, as_json: bool
) -> None:
    """Delete old failed jobs, and batches that finished long ago.

    A batch is kept while a callback of it is still to run, or a failed job of it is kept that may be retried.
    """
    target = Target.of(connection)
    age = hours * 3600
    store = None if only_batches and not only_failed else target.failed_store()
    counted = None if only_failed and not only_batches else target.batches()
    what = " and ".join(word for word, part in (("failed jobs", store), ("finished batches", counted)) if part)
    confirm(f"delete the {what} older than {hours:g} h from connection {target.name!r}", force=force)
    with Interruption() as interruption:
        jobs = 0 if store is None else flush_older(store, age, None, interruption)
        finished = 0 if counted is None else _prune(counted, age, interruption)
    if as_json:
        pruned = {"failed": jobs, "batches": finished}
        show_json({"connection": target.name, "pruned": pruned, "interrupted": interruption.requested})
    else:
        click.echo(
            f"{counted_jobs(jobs, 'failed')} and {finished:,} {'batch' if finished == 1 else 'batches'} deleted."
        )
    end_with(exit_codes.INTERRUPTED if interruption.requested else exit_codes.OK)


def _prune(driver: RunsBatches, age: float, interruption: Interruption) -> int:
    total = 0
    while interruption.goes_on():
        count = driver.prune_batches(older_than=age)
        total += count
        if count < PORTION:
            break
    return total


def _row(batch: StoredBatch, now: float) -> tuple[object, ...]:
    return batch.id, batch.name or "-", batch.pending, batch.done, batch.failed, batch.skipped, state(batch, now)


def state(batch: StoredBatch, now: float) -> str:
    """How far a batch is."""
    if batch.finished_at is not None:
        cancelled = "" if batch.cancelled_at is None else "cancelled, "
        return f"{cancelled}finished {relative(batch.finished_at, now)}"
    if not batch.is_whole:
        return "not wholly pushed"
    if batch.cancelled_at is not None:
        return f"cancelled {relative(batch.cancelled_at, now)}"
    return f"running for {duration(now - batch.created_at)}"
