"""How `show` and `explain` speak of chains and batches."""

from __future__ import annotations

from collections.abc import Iterator

import click

from .. import clock
from ..explain import explain, relative
from ..stored import FailedJob, StoredBatch, StoredChain
from . import batches, documents
from .lookup import AnyJob, catch_of, find_job
from .output import iso, show_facts, show_json, show_lines, show_table
from .target import Target


def show_chain(target: Target, chain: StoredChain, *, as_json: bool) -> None:
    """Show how far a chain is, and its links."""
    job = find_job(target, chain.job_id)
    if as_json:
        show_json({"connection": target.name, **documents.chain(chain, job)})
        return
    now = clock.now()
    stopped = "stopped " if isinstance(job, FailedJob) else ""
    show_facts(
        [
            ("chain", chain.id),
            ("state", f"{stopped}at link {chain.link} of {chain.total}"),
            ("created at", f"{iso(chain.created_at)} ({relative(chain.created_at, now)})"),
        ]
    )
    click.echo()
    show_table(("Link", "Job", "ID", "State"), _links(target, chain, job, now))


def show_batch(target: Target, batch: StoredBatch, *, as_json: bool) -> None:
    """Show the counts of a batch."""
    if as_json:
        show_json({"connection": target.name, **documents.batch(batch)})
        return
    now = clock.now()
    counts = {name: getattr(batch, name) for name in ("total", "pending", "done", "failed", "skipped")}
    facts = {"batch": batch.id, "name": batch.name or "-", "state": batches.state(batch, now), **counts}
    show_facts([*facts.items(), ("created at", f"{iso(batch.created_at)} ({relative(batch.created_at, now)})")])


def explain_chain(target: Target, chain: StoredChain, *, as_json: bool) -> None:
    """Say in a sentence where a chain is, and what led there."""
    job = find_job(target, chain.job_id)
    verb = "has stopped" if isinstance(job, FailedJob) else "is"
    sentence = f"The chain {verb} at link {chain.link} of {chain.total}, the job {chain.job_id}."
    transitions: tuple[str, ...] = ()
    if job is not None:
        told = explain(job, now=clock.now(), pause=target.pause_of(job.envelope.queue))
        sentence, transitions = f"{sentence} {told.sentence}", told.transitions
    if as_json:
        show_json({"connection": target.name, **documents.chain(chain, job), "explanation": sentence})
        return
    show_lines((sentence, *(f"- {line}" for line in transitions)))


def explain_batch(target: Target, batch: StoredBatch, *, as_json: bool) -> None:
    """Say in a sentence how far a batch is."""
    ended = batch.total - batch.pending
    sentence = (
        f"{ended:,} of {batch.total:,} members of the batch have ended: {batch.done:,} done, {batch.failed:,} failed, "
        f"{batch.skipped:,} skipped. {_since(batch, clock.now())}"
    )
    if as_json:
        show_json({"connection": target.name, **documents.batch(batch), "explanation": sentence})
        return
    show_lines((sentence,))


def _since(batch: StoredBatch, now: float) -> str:
    if batch.finished_at is not None:
        return f"It finished {relative(batch.finished_at, now)}."
    if batch.cancelled_at is not None:
        return f"It was cancelled {relative(batch.cancelled_at, now)}."
    return f"It was dispatched {relative(batch.created_at, now)}."


def _links(target: Target, chain: StoredChain, job: AnyJob | None, now: float) -> Iterator[tuple[object, ...]]:
    for number in range(1, chain.link):
        yield number, "", "", "done"  # nothing else is kept of it
    yield chain.link, *_place(job, chain.job_id, now)
    has_stopped = isinstance(job, FailedJob)
    for number, envelope in enumerate(chain.waiting, start=chain.link + 1):
        waits = f"if link {chain.link} is retried" if has_stopped else f"waits for link {number - 1}"
        yield number, envelope.name, envelope.id, waits
    if chain.catch is not None:
        yield "catch", chain.catch.name, chain.catch.id, "waits for a failure"
    elif has_stopped:
        catch = catch_of(target, chain)
        yield "catch", *(("", "", "has ended, if any") if catch is None else _place(catch, "", now))


def _place(job: AnyJob | None, job_id: str, now: float) -> tuple[object, ...]:
    if job is None:
        return None, job_id, None
    return job.envelope.name, job.envelope.id, documents.whereabouts(job, now)
