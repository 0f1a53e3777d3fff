"""`show` and `explain`: one job, wherever it is."""

from __future__ import annotations

from collections.abc import Iterator

import click

from .. import clock
from ..driver import Driver, StoresFailedJobs
from ..explain import Pause, explain, relative
from ..serializer import Description
from ..stored import FailedJob, StoredJob
from . import documents, exit_codes, parameters
from .group import complain, jobs_cli
from .output import iso, json_option, show_facts, show_json, show_lines
from .target import Target, connection_option

# Nothing is stored of a job that was dropped: whoever dispatches one job a thousand times costs its holder nothing.
_DROPPED = (
    " If it was dropped as a duplicate, the log of flask_jobs.lifecycle says for which job: look there for [job:{}]."
)


@jobs_cli.command()
@click.argument("job_id", metavar="ID")
@connection_option
@json_option
def show(*, job_id: str, connection: str | None, as_json: bool) -> None:
    """Show all that is known of a job: waiting, running or failed. Sensitive fields are hidden."""
    target = Target.of(connection)
    job = _find(target, job_id)
    described = target.state.serializer.describe(job.envelope)
    if as_json:
        show_json({"connection": target.name, **documents.whole(job, described)})
        return
    now = clock.now()
    show_facts([*_facts(job, now), *_fields(described)])
    show_lines(f"- {line}" for line in explain(job, now=now).transitions)
    if isinstance(job, FailedJob):
        show_lines(("", *(job.error.traceback or f"{job.error.type}: {job.error.message}").splitlines()))


@jobs_cli.command("explain")
@click.argument("job_id", metavar="ID")
@connection_option
@json_option
def explain_job(*, job_id: str, connection: str | None, as_json: bool) -> None:
    """Say in a sentence why a job is where it is, and what led there."""
    target = Target.of(connection)
    job = _find(target, job_id)
    paused = target.paused()
    queue = job.envelope.queue
    told = explain(job, now=clock.now(), pause=Pause(paused[queue]) if queue in paused else None)
    if as_json:
        show_json({"connection": target.name, **documents.explained(job, told.sentence)})
        return
    show_lines((told.sentence, *(f"- {line}" for line in told.transitions)))


def _find(target: Target, given: str) -> StoredJob | FailedJob:
    job_id = parameters.canonical(given)
    driver = target.inspectable()
    found: StoredJob | FailedJob | None = None
    if job_id is not None:
        found = driver.find(job_id) or _find_failed(target.driver, job_id)
    if found is None:
        complain(
            f"There is no job {given!r} on connection {target.name!r}: it has ended, or it never was here."
            + ("" if job_id is None else _DROPPED.format(job_id))
        )
        raise click.exceptions.Exit(exit_codes.ERROR)
    return found


def _find_failed(driver: Driver, job_id: str) -> FailedJob | None:
    return driver.find_failed(job_id) if isinstance(driver, StoresFailedJobs) else None


def _facts(job: StoredJob | FailedJob, now: float) -> Iterator[tuple[str, object]]:
    yield "id", job.envelope.id
    yield "job", job.envelope.name
    yield "queue", job.envelope.queue
    if isinstance(job, FailedJob):
        yield "state", f"failed {relative(job.failed_at, now)}"
    else:
        yield "state", documents.state(job, now)
    for what, number in documents.counters(job.counters).items():
        yield what, number
    for what, instant in documents.instants(job).items():
        if instant is not None:
            yield what, f"{iso(instant)} ({relative(instant, now)})"
    if job.envelope.retried_from is not None:
        yield "retried from", job.envelope.retried_from
    yield from documents.ties(job.envelope.ties).items()
    yield from _sayings(job)


def _sayings(job: StoredJob | FailedJob) -> Iterator[tuple[str, object]]:
    if isinstance(job, FailedJob):
        yield "failed() hook", job.hook.value
        for cause in job.error.causes:
            yield "cause", cause
    elif job.progress is not None:
        said = job.progress
        total = "" if said.total is None else f" of {said.total:g}"
        yield "progress", f"{said.done:g}{total} {said.message}".rstrip()


def _fields(described: Description) -> Iterator[tuple[str, object]]:
    if described["version"] is not None:
        yield "version", described["version"]
    if described["tags"]:
        yield "tags", ", ".join(described["tags"])
    if described["problem"] is not None:
        yield "problem", described["problem"]
    for name, value in described["fields"].items():
        yield f"· {name}", value
