"""`show` and `explain`: a job, wherever it is, a chain, or a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

import click

from .. import clock
from ..envelope import Hook, Ties
from ..explain import explain, relative
from ..serializer import Description
from ..stored import FailedJob, StoredBatch, StoredChain
from . import documents, workflows
from .group import jobs_cli
from .lookup import AnyJob, chain_of, find
from .output import iso, json_option, show_facts, show_json, show_lines
from .target import Target, connection_option


@jobs_cli.command()
@click.argument("id_", metavar="ID")
@connection_option
@json_option
def show(*, id_: str, connection: str | None, as_json: bool) -> None:
    """Show all that is known of a job: waiting, running or failed. Sensitive fields are hidden.

    The id of a chain shows its links, that of a batch its counts.
    """
    target = Target.of(connection)
    match find(target, id_):
        case StoredChain() as chain:
            workflows.show_chain(target, chain, as_json=as_json)
        case StoredBatch() as batch:
            workflows.show_batch(target, batch, as_json=as_json)
        case job:
            _show_job(target, job, as_json=as_json)


@jobs_cli.command("explain")
@click.argument("id_", metavar="ID")
@connection_option
@json_option
def explain_job(*, id_: str, connection: str | None, as_json: bool) -> None:
    """Say in a sentence why a job, a chain or a batch is where it is, and what led there."""
    target = Target.of(connection)
    match find(target, id_):
        case StoredChain() as chain:
            workflows.explain_chain(target, chain, as_json=as_json)
        case StoredBatch() as batch:
            workflows.explain_batch(target, batch, as_json=as_json)
        case job:
            _explain_job(target, job, as_json=as_json)


def _show_job(target: Target, job: AnyJob, *, as_json: bool) -> None:
    described = target.state.serializer.describe(job.envelope)
    if as_json:
        show_json({"connection": target.name, **documents.whole(job, described)})
        return
    now = clock.now()
    show_facts([*_facts(target, job, now), *_fields(described)])
    show_lines(f"- {line}" for line in explain(job, now=now).transitions)
    if isinstance(job, FailedJob):
        show_lines(("", *(job.error.traceback or f"{job.error.type}: {job.error.message}").splitlines()))


def _explain_job(target: Target, job: AnyJob, *, as_json: bool) -> None:
    told = explain(job, now=clock.now(), pause=target.pause_of(job.envelope.queue))
    if as_json:
        show_json({"connection": target.name, **documents.explained(job, told.sentence)})
        return
    show_lines((told.sentence, *(f"- {line}" for line in told.transitions)))


def _facts(target: Target, job: AnyJob, now: float) -> Iterator[tuple[str, object]]:
    yield "id", job.envelope.id
    yield "job", job.envelope.name
    yield "queue", job.envelope.queue
    yield "state", documents.whereabouts(job, now)
    for what, number in documents.counters(job.counters).items():
        yield what, number
    for what, instant in documents.instants(job).items():
        if instant is not None:
            yield what, f"{iso(instant)} ({relative(instant, now)})"
    if job.envelope.retried_from is not None:
        yield "retried from", job.envelope.retried_from
    if job.envelope.ties is not None:
        yield from _ties(job.envelope.ties, chain_of(target, job))
    yield from _sayings(job)


def _ties(ties: Ties, chain: StoredChain | None) -> Iterator[tuple[str, object]]:
    if ties.key is not None:
        yield "unique key", ties.key.said
    if ties.chain is not None:
        place = f"{ties.link}" if chain is None else f"{ties.link} of {chain.total}"
        yield "chain", ties.chain
        yield "link", "catch" if ties.is_callback else place
    if ties.batch is not None:
        yield ("callback of batch" if ties.is_callback else "batch"), ties.batch


def _sayings(job: AnyJob) -> Iterator[tuple[str, object]]:
    if isinstance(job, FailedJob):
        if (said_of_hook := _hook(job.hook)) is not None:
            yield "failed()", said_of_hook
        for cause in job.error.causes:
            yield "cause", cause
    elif job.progress is not None:
        said = job.progress
        total = "" if said.total is None else f" of {said.total:g}"
        yield "progress", f"{said.done:g}{total} {said.message}".rstrip()


def _hook(hook: Hook) -> str | None:
    match hook:
        case Hook.PENDING:
            return "has not run yet"
        case Hook.RAN:
            return "has run"
        case Hook.RAISED:
            return "raised an error"
        case Hook.NONE:
            return None
    assert_never(hook)


def _fields(described: Description) -> Iterator[tuple[str, object]]:
    if described["version"] is not None:
        yield "version", described["version"]
    if described["tags"]:
        yield "tags", ", ".join(described["tags"])
    if described["problem"] is not None:
        yield "problem", described["problem"]
    for name, value in described["fields"].items():
        yield f"· {name}", value
