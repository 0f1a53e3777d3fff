"""`status` and `list`: what waits and runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from .. import clock
from ..driver import StoresFailedJobs
from ..explain import duration
from ..stored import Sizes, StoredJob
from . import documents, parameters
from .group import jobs_cli
from .output import iso, json_option, show_json, show_json_with, show_table
from .paging import stored_jobs
from .target import Target, connection_option


@jobs_cli.command()
@connection_option
@json_option
def status(*, connection: str | None, as_json: bool) -> None:
    """Show how many jobs wait, are delayed, run and have failed."""
    target = Target.of(connection)
    driver = target.inspectable()
    sizes = {queue: driver.size(queue) for queue in sorted({*driver.queues(), target.settings.queue})}
    paused = target.paused()
    failed = target.driver.count_failed() if isinstance(target.driver, StoresFailedJobs) else None
    if as_json:
        queues = [_queue(queue, size, paused) for queue, size in sizes.items()]
        show_json({"connection": target.name, "driver": target.settings.driver, "queues": queues, "failed": failed})
        return
    show_table(
        ("Queue", "Ready", "Delayed", "Running", "Paused"),
        [(queue, *_counts(size), _pause(queue, paused)) for queue, size in sizes.items()],
    )
    if failed is not None:
        click.echo(f"{failed:,} failed.")


@jobs_cli.command("list")
@click.option("--queue", type=parameters.queue, help="Only jobs of this queue.")
@click.option("--state", type=parameters.STATES, help="Only jobs in this state.")
@click.option("--limit", type=parameters.LIMIT, default=50, show_default=True, help="How many at most.")
@click.option("--after", type=parameters.job_id, metavar="ID", help="Go on after this job of the page before.")
@connection_option
@json_option
def list_jobs(
    *, queue: str | None, state: str | None, limit: int, after: str | None, connection: str | None, as_json: bool
) -> None:
    """List the jobs that wait or run, the oldest ids first."""
    target = Target.of(connection)
    driver = target.inspectable()
    queues = driver.queues() if queue is None else [queue]
    wanted = parameters.state(state)
    if as_json:
        found = stored_jobs(driver, queues, state=wanted, after=after, limit=limit, light=documents.stored_job)
        show_json_with({"connection": target.name}, "jobs", found)
        return
    rows = list(stored_jobs(driver, queues, state=wanted, after=after, limit=limit, light=_row))
    if not rows:
        click.echo("No jobs.")
        return
    show_table(("ID", "Job", "Queue", "State"), [tuple(row.values()) for row in rows])
    if len(rows) == limit:
        click.echo(f"For more: --after {rows[-1]['id']}")


def _queue(queue: str, size: Sizes, paused: Mapping[str, float | None]) -> dict[str, Any]:
    return {
        "queue": queue,
        "ready": size.ready,
        "delayed": size.delayed,
        "running": size.reserved,
        "paused": queue in paused,
        "paused_until": iso(paused.get(queue)),
    }


def _counts(size: Sizes) -> tuple[str, str, str]:
    return f"{size.ready:,}", f"{size.delayed:,}", f"{size.reserved:,}"


def _pause(queue: str, paused: Mapping[str, float | None]) -> str:
    if queue not in paused:
        return "no"
    until = paused[queue]
    return "until resumed" if until is None else f"for {duration(until - clock.now())}"


def _row(job: StoredJob) -> dict[str, Any]:
    return {
        "id": job.envelope.id,
        "name": job.envelope.name,
        "queue": job.envelope.queue,
        "state": documents.state(job, clock.now()),
    }
