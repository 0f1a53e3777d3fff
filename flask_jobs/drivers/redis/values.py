"""What is stored in Redis, as text, and the values of the port that are made of it.

A stored job is its fields in a fixed order and then its body, with a separator between: a script splits off the
few fields it needs and carries the rest along. What the job is tied to is one of the fields, with a separator of its
own, and empty for a job that stands alone. A planned push is what the script that stores it takes, joined likewise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ... import history
from ...envelope import (
    After,
    Counters,
    Entry,
    Envelope,
    ErrorRecord,
    Followed,
    Hook,
    Key,
    Progress,
    Reclaimed,
    Reservation,
    Ties,
    When,
)
from ...stored import FailedJob, State, StoredBatch, StoredChain, StoredJob
from ..transitions import storable
from .keys import SEPARATOR

_LINE = "\x1e"
_TIE = "\x1d"


_UNCOUNTED = ("0", "0", "0", "0")
_FIRST = Counters(attempts=1)
"""What is counted of a job in its first delivery, which for most is the only one."""


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
    ties: str
    history: str
    body: str

    @classmethod
    def parse(cls, value: bytes) -> StoredFields:
        """The fields of a stored value."""
        return cls._make(decoded(value).split(SEPARATOR, 11))

    def envelope(self, job_id: str) -> Envelope:
        """The job itself."""
        ties = _ties(self.ties) if self.ties else None
        return Envelope(job_id, self.name, self.queue, self.body, self.retried_from or None, ties)

    def counters(self, *, delivered: int = 0) -> Counters:
        """What is counted of it; `delivered` is 1 for a delivery under way, which the store does not count yet."""
        if delivered and self[:4] == _UNCOUNTED:
            return _FIRST
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


def ties_text(ties: Ties | None) -> str:
    """What a job is tied to as it is stored, so that a script can split it; empty for a job that stands alone."""
    if ties is None:
        return ""
    key = ties.key
    parts = [
        "" if key is None else key.digest,
        "" if key is None else json.dumps(key.said),
        "1" if key is not None and key.until_processing else "",
        "" if key is None or key.seconds is None else repr(key.seconds),
        ties.chain or "",
        str(ties.link),
        ties.batch or "",
        "1" if ties.is_callback else "",
    ]
    return _TIE.join(parts)


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


def delivery(name: bytes, value: bytes, now: float) -> Reservation:
    """The delivery of this name (see `member`) that is under way."""
    receipt, _, job_id = name.rpartition(encoded(SEPARATOR))
    return reservation(job_id, value, decoded(receipt), now)


def reclaimed(job_id: bytes, value: bytes, charged: bytes) -> Reclaimed:
    """What a pop says of an expired lease that it took in."""
    fields = StoredFields.parse(value)
    return Reclaimed(fields.envelope(decoded(job_id)), int(fields.attempts) + 1, charged == b"1")


def followed(job_id: bytes, value: bytes, holder: bytes) -> Followed:
    """A job that was stored in the step that ended another, or dropped because its key is held."""
    return Followed(StoredFields.parse(value).envelope(decoded(job_id)), decoded(holder) or None)


def stored_chain(chain_id: str, found: Mapping[bytes, bytes]) -> StoredChain | None:
    """A chain as an operator sees it; None if it is gone, or damaged."""
    try:
        total, link = int(found[b"total"]), int(found[b"link"])
        planned = [found[b"%d" % place] for place in range(link + 1, total + 1)]
        return StoredChain(
            id=chain_id,
            total=total,
            link=link,
            job_id=decoded(found[b"job"]),
            created_at=float(found[b"created"]),
            waiting=tuple(map(_planned, planned)),
            catch=_planned(found[b"catch"]) if b"catch" in found else None,
        )
    except (KeyError, ValueError):
        return None


def stored_batch(batch_id: str, state: Sequence[bytes | None]) -> StoredBatch | None:
    """A batch as an operator sees it, made of what the script gives; None if it is gone, or damaged."""
    try:
        name, *texts = [decoded(part or b"") for part in state]
        total, pending, done, failed, skipped, allow, created, cancelled, finished, callbacks, pushing = texts
        return StoredBatch(
            id=batch_id,
            name=name,
            total=int(total),
            pending=int(pending),
            done=int(done),
            failed=int(failed),
            skipped=int(skipped),
            allow_failures=bool(allow),
            created_at=float(created),
            cancelled_at=_number(cancelled),
            finished_at=_number(finished),
            callbacks=int(callbacks),
            is_whole=int(pushing) == 0,
        )
    except ValueError:
        return None


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


def _planned(push: bytes) -> Envelope:
    """The job of a push that is planned; `ValueError` if it is damaged."""
    job_id, queue, _, _, _, name, origin, ties, _, body = decoded(push).split(SEPARATOR, 9)
    return Envelope(job_id, name, queue, body, origin or None, _ties(ties) if ties else None)


def _ties(text: str) -> Ties | None:
    # The scripts have looked at their shape. Whatever a foreign hand has put into that must keep no job from being run.
    try:
        digest, said, until_processing, bound, chain, link, batch, callback = text.split(_TIE)
        return Ties(
            key=Key(digest, json.loads(said), bool(until_processing), _number(bound)) if digest else None,
            chain=chain or None,
            link=int(link),
            batch=batch or None,
            is_callback=bool(callback),
        )
    except ValueError:
        return None


def _history(text: str) -> tuple[Entry, ...]:
    return history.load(f"[{text.replace(_LINE, ',')}]") if text else ()


def _number(text: str) -> float | None:
    return float(text) if text else None
