"""What is stored in Redis, as text, and the values of the port that are made of it.

A stored job is its fields in a fixed order and then its body, with a separator between: a script splits off the
few fields it needs and carries the rest along.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from ... import history
from ...envelope import (
    After,
    Counters,
    Entry,
    Envelope,
    ErrorRecord,
    FailedJob,
    Hook,
    Progress,
    Reclaimed,
    Reservation,
    State,
    StoredJob,
    When,
)
from ..transitions import storable
from .keys import SEPARATOR

_LINE = "\x1e"


class StoredFields(NamedTuple):
    """The parts of a stored job, in their order. Its id is its key and stands beside it."""

    attempts: str
    errors: str
    releases: str
    interruptions: str
    name: str
    queue: str
    pushed_at: str
    retry_until: str
    retried_from: str
    history: str
    body: str

    @classmethod
    def parse(cls, value: bytes) -> StoredFields:
        """The fields of a stored value."""
        return cls._make(decoded(value).split(SEPARATOR, 10))

    def envelope(self, job_id: str) -> Envelope:
        """The job itself."""
        return Envelope(job_id, self.name, self.queue, self.body, self.retried_from or None)

    def counters(self, *, delivered: int = 0) -> Counters:
        """What is counted of it; `delivered` is 1 for a delivery under way, which the store does not count yet."""
        return Counters(int(self.attempts) + delivered, int(self.errors), int(self.releases), int(self.interruptions))


def decoded(value: bytes) -> str:
    """The text of stored bytes. What is no text is shown as escapes, so that it can be told from what it was."""
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return value.decode("utf-8", "backslashreplace")


def encoded(text: str) -> bytes:
    """The bytes of a text, whatever a foreign hand has put into it."""
    return text.encode("utf-8", "surrogatepass")


def instant_text(when: When | None) -> str:
    """An instant as the scripts read it: ``+5`` is five seconds from now; empty is none."""
    if when is None:
        return ""
    return f"+{when.seconds!r}" if isinstance(when, After) else repr(when.instant)


def history_text(entries: Sequence[Entry]) -> str:
    """A history as it is stored: one JSON array a line, so that a script can add to it."""
    return _LINE.join((history.dump([entry]) or "")[1:-1] for entry in entries)


def reservation(job_id: bytes, value: bytes, receipt: str, now: float) -> Reservation:
    """The delivery of a job that was popped."""
    fields = StoredFields.parse(value)
    return Reservation(
        envelope=fields.envelope(decoded(job_id)),
        counters=fields.counters(delivered=1),
        receipt=receipt,
        now=now,
        pushed_at=float(fields.pushed_at),
        retry_until=_number(fields.retry_until),
        history=_history(fields.history),
    )


def reclaimed(job_id: bytes, value: bytes, charged: bytes) -> Reclaimed:
    """What a pop says of an expired lease that it took in."""
    fields = StoredFields.parse(value)
    return Reclaimed(fields.envelope(decoded(job_id)), int(fields.attempts) + 1, charged == b"1")


def stored_job(job_id: bytes, value: bytes, state: bytes, at: bytes, progress: bytes) -> StoredJob:
    """A stored job as an operator sees it; `at` is when it is due or its lease ends."""
    fields = StoredFields.parse(value)
    is_reserved = state == b"reserved"
    until = float(at) if at else None
    return StoredJob(
        envelope=fields.envelope(decoded(job_id)),
        state=State(state.decode()),
        counters=fields.counters(delivered=int(is_reserved)),
        pushed_at=float(fields.pushed_at),
        due=None if is_reserved else until,
        leased_until=until if is_reserved else None,
        retry_until=_number(fields.retry_until),
        history=_history(fields.history),
        progress=_progress(progress),
    )


def failed_job(job_id: bytes, record: bytes) -> FailedJob:
    """A failed record as the port's value."""
    hook, failed_at, position, error, value = record.split(encoded(SEPARATOR), 4)
    fields = StoredFields.parse(value)
    kind, message, traceback, causes = json.loads(error)
    return FailedJob(
        envelope=fields.envelope(decoded(job_id)),
        error=ErrorRecord(kind, message, traceback, tuple(causes)),
        counters=fields.counters(),
        pushed_at=float(fields.pushed_at),
        failed_at=float(failed_at),
        position=int(position),
        history=_history(fields.history),
        hook=Hook(hook.decode()),
    )


def error_text(error: ErrorRecord) -> str:
    """An error as it is stored, made storable whatever it says."""
    kept = storable(error)
    return json.dumps([kept.type, kept.message, kept.traceback, kept.causes])


def progress_text(progress: Progress) -> str:
    """Progress as it is stored."""
    return json.dumps([progress.done, progress.total, progress.message])


def _progress(text: bytes) -> Progress | None:
    if not text:
        return None
    done, total, message = json.loads(text)
    return Progress(done, total, message)


def _history(text: str) -> tuple[Entry, ...]:
    return history.load(f"[{text.replace(_LINE, ',')}]") if text else ()


def _number(text: str) -> float | None:
    return float(text) if text else None
