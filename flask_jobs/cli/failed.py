"""`failed`, `forget` and `flush`: the jobs that were given up on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from .. import clock
from ..driver import PORTION, StoresFailedJobs
from ..explain import relative
from ..stored import FailedJob
from . import documents, exit_codes, parameters
from .confirm import confirm, force_option
from .group import jobs_cli
from .interruption import Interruption
from .output import counted_jobs, json_option, show_json, show_json_with, show_table
from .paging import failed_jobs
from .reports import Removal, end_with, progress
from .target import Target, connection_option


@jobs_cli.command()
@click.option("--queue", type=parameters.queue, help="Only jobs of this queue.")
@click.option("--name", help="Only jobs of this name.")
@click.option("--limit", type=parameters.LIMIT, default=50, show_default=True, help="How many at most.")
@click.option("--before", type=parameters.POSITION, metavar="POSITION", help="Go on with those before this one.")
@connection_option
@json_option
def failed(
    *, queue: str | None, name: str | None, limit: int, before: int | None, connection: str | None, as_json: bool
) -> None:
    """List the failed jobs, newest first."""
    target = Target.of(connection)
    store = target.failed_store()
    light = documents.failed_job if as_json else partial(_row, now=clock.now())
    found = failed_jobs(store, queue=queue, name=name, before=before, limit=limit, light=light)
    if as_json:
        show_json_with({"connection": target.name}, "failed", found)
        return
    rows = list(found)
    if not rows:
        click.echo("No failed jobs.")
        return
    show_table(("ID", "Job", "Failed", "Error"), [tuple(row.values())[:-1] for row in rows])
    if len(rows) == limit:
        click.echo(f"For more: --before {rows[-1]['position']}")


@jobs_cli.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@force_option
@connection_option
@json_option
def forget(*, ids: Sequence[str], force: bool, connection: str | None, as_json: bool) -> None:
    """Delete failed jobs by their ids."""
    target = Target.of(connection)
    store = target.failed_store()
    removal = Removal()
    known: list[str] = []
    for given in ids:
        job_id = parameters.canonical(given)
        if job_id is not None and store.find_failed(job_id) is not None:
            known.append(job_id)
        else:
            removal.unknown.append(given)
    if known:
        confirm(f"delete {counted_jobs(len(known), 'failed')} from connection {target.name!r}", force=force)
    for job_id in known:
        (removal.done if store.forget(job_id) else removal.unknown).append(job_id)
    removal.show(target, "forgotten", "No failed job has the id", as_json=as_json)


@jobs_cli.command()
@click.option("--hours", type=parameters.seconds, metavar="HOURS", help="Only those that failed so long ago.")
@click.option("--older-than", type=parameters.seconds, metavar="SECONDS", help="The same in seconds.")
@click.option("--queue", type=parameters.queue, help="Only jobs of this queue.")
@force_option
@connection_option
@json_option
def flush(
    *,
    hours: float | None,
    older_than: float | None,
    queue: str | None,
    force: bool,
    connection: str | None,
    as_json: bool,
) -> None:
    """Delete the failed jobs, all or the older ones."""
    target = Target.of(connection)
    store = target.failed_store()
    if hours is not None and older_than is not None:
        raise click.UsageError("--hours and --older-than say the same: give one of them.")
    age = older_than if hours is None else hours * 3600
    confirm(f"delete {_which(age, queue)} from connection {target.name!r}", force=force)
    with Interruption() as interruption:
        count = flush_older(store, age, queue, interruption)
    if as_json:
        show_json({"connection": target.name, "flushed": count, "interrupted": interruption.requested})
    else:
        click.echo(f"{counted_jobs(count, 'failed')} deleted.")
    end_with(exit_codes.INTERRUPTED if interruption.requested else exit_codes.OK)


def flush_older(store: StoresFailedJobs, age: float | None, queue: str | None, interruption: Interruption) -> int:
    """Delete in portions what had failed when the command began; what fails meanwhile is left alone."""
    began, total, older_than = clock.now(), 0, age
    while interruption.goes_on():
        count = store.flush(older_than=older_than, queue=queue)
        total += count
        if count < PORTION:
            break
        progress(f"{counted_jobs(total, 'failed')} deleted")
        older_than = (age or 0.0) + max(clock.now() - began, 0.0)
    return total


def _which(age: float | None, queue: str | None) -> str:
    which = "all failed jobs" if age is None else f"the failed jobs older than {age:g} s"
    return which if queue is None else f"{which} of queue {queue!r}"


def _row(job: FailedJob, now: float) -> dict[str, Any]:
    return {
        "id": job.envelope.id,
        "name": job.envelope.name,
        "failed": relative(job.failed_at, now),
        "error": documents.shortened(f"{job.error.type.rpartition('.')[2]}: {job.error.message}", 200),
        "position": job.position,
    }
