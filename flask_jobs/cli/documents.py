"""Jobs as JSON documents and as words in tables. Keys are stable; instants are ISO 8601 in UTC."""

from __future__ import annotations

from typing import Any

from ..envelope import Counters, Entry, Envelope, Progress, Ties
from ..explain import duration, relative
from ..serializer import Description
from ..stored import FailedJob, State, StoredBatch, StoredChain, StoredJob
from .output import iso

STATES = {State.READY: "ready", State.DELAYED: "delayed", State.RESERVED: "running"}
"""What the states are called here: what a driver has reserved for a worker runs."""


def stored_job(job: StoredJob) -> dict[str, Any]:
    """A stored job without its fields and history."""
    return {
        **_beginning(job),
        **{what: iso(instant) for what, instant in instants(job).items()},
        "retried_from": job.envelope.retried_from,
        **ties(job.envelope.ties),
        "progress": _progress(job.progress),
    }


def failed_job(job: FailedJob) -> dict[str, Any]:
    """A failed job without its fields, traceback and history; of its message the beginning."""
    return {
        **_beginning(job),
        **{what: iso(instant) for what, instant in instants(job).items()},
        "position": job.position,
        "retried_from": job.envelope.retried_from,
        **ties(job.envelope.ties),
        "hook": job.hook.value,
        "error": {"type": job.error.type, "message": shortened(job.error.message)},
    }


def whole(job: StoredJob | FailedJob, described: Description) -> dict[str, Any]:
    """All that is known of a job."""
    told = {
        "version": described["version"],
        "tags": described["tags"],
        "fields": described["fields"],
        "problem": described["problem"],
        "history": [_entry(noted) for noted in job.history],
    }
    if not isinstance(job, FailedJob):
        return {**stored_job(job), **told}
    error = {
        "type": job.error.type,
        "message": job.error.message,
        "traceback": job.error.traceback,
        "causes": list(job.error.causes),
    }
    return {**failed_job(job), "error": error, **told}


def explained(job: StoredJob | FailedJob, sentence: str) -> dict[str, Any]:
    """Why a job is where it is."""
    return {
        "id": job.envelope.id,
        "name": job.envelope.name,
        "queue": job.envelope.queue,
        "state": _state(job),
        "explanation": sentence,
        "history": [_entry(noted) for noted in job.history],
    }


def chain(found: StoredChain, job: StoredJob | FailedJob | None) -> dict[str, Any]:
    """A chain that has not ended, its present link, and what follows."""
    return {
        "chain": found.id,
        "link": found.link,
        "total": found.total,
        "created_at": iso(found.created_at),
        "job": {"id": found.job_id} if job is None else _beginning(job),
        "waiting": [_planned(envelope) for envelope in found.waiting],
        "catch": None if found.catch is None else _planned(found.catch),
    }


def batch(found: StoredBatch) -> dict[str, Any]:
    """A batch and its counts."""
    return {
        "id": found.id,
        "name": found.name,
        "total": found.total,
        "pending": found.pending,
        "done": found.done,
        "failed": found.failed,
        "skipped": found.skipped,
        "allow_failures": found.allow_failures,
        "created_at": iso(found.created_at),
        "cancelled_at": iso(found.cancelled_at),
        "finished_at": iso(found.finished_at),
    }


def ties(held: Ties | None) -> dict[str, object]:
    """The unique key, chain and batch of a job, as far as it has them."""
    if held is None:
        return {}
    chain = None if held.chain is None else {"chain": held.chain, "link": "catch" if held.is_callback else held.link}
    batch = None if held.batch is None else {"batch": held.batch, "callback": held.is_callback}
    key = None if held.key is None else {"unique_key": held.key.said}
    return {**(key or {}), **(chain or {}), **(batch or {})}


def counters(counted: Counters) -> dict[str, int]:
    """What is counted of a job."""
    return {
        "attempts": counted.attempts,
        "errors": counted.errors,
        "releases": counted.releases,
        "interruptions": counted.interruptions,
    }


def instants(job: StoredJob | FailedJob) -> dict[str, float | None]:
    """The instants of a job by their names."""
    if isinstance(job, FailedJob):
        return {"pushed_at": job.pushed_at, "failed_at": job.failed_at}
    return {
        "pushed_at": job.pushed_at,
        "due": job.due,
        "leased_until": job.leased_until,
        "retry_until": job.retry_until,
    }


def state(job: StoredJob, now: float) -> str:
    """Where a stored job is, with the time that matters there."""
    if job.state is State.RESERVED:
        return "running" if job.leased_until is None else f"running, lease {_end(job.leased_until, now)}"
    if job.due is not None and job.due > now:
        return f"due {relative(job.due, now)}"
    return f"ready for {duration(now - (job.pushed_at if job.due is None else job.due))}"


def whereabouts(job: StoredJob | FailedJob, now: float) -> str:
    """Where a job is: stored, with the time that matters there, or failed."""
    return f"failed {relative(job.failed_at, now)}" if isinstance(job, FailedJob) else state(job, now)


def shortened(text: str, limit: int = 1_000) -> str:
    """The beginning of a long text."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _beginning(job: StoredJob | FailedJob) -> dict[str, Any]:
    return {
        "id": job.envelope.id,
        "name": job.envelope.name,
        "queue": job.envelope.queue,
        "state": _state(job),
        **counters(job.counters),
    }


def _end(instant: float, now: float) -> str:
    return f"{'ended' if instant <= now else 'ends'} {relative(instant, now)}"


def _planned(envelope: Envelope) -> dict[str, str]:
    return {"id": envelope.id, "name": envelope.name, "queue": envelope.queue}


def _state(job: StoredJob | FailedJob) -> str:
    return "failed" if isinstance(job, FailedJob) else STATES[job.state]


def _progress(said: Progress | None) -> dict[str, Any] | None:
    return None if said is None else {"done": said.done, "total": said.total, "message": said.message}


def _entry(noted: Entry) -> dict[str, Any]:
    return {
        "event": noted.event.value,
        "at": iso(noted.at),
        "attempt": noted.attempt,
        "reason": noted.reason,
        "until": iso(noted.until),
    }
