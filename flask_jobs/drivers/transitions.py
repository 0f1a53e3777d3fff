"""What every driver reckons alike when a job changes its place. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from itertools import chain
from typing import Protocol, TypeVar

from .. import history
from ..envelope import Ack, Counters, Entry, Envelope, ErrorRecord, Event, Fail
from ..errors import KeyHeld
from ..pushes import Role
from ..stored import StoredBatch

RECLAIMED_AT_ONCE = 100
"""How many expired leases one pop takes in at most."""


class Placed(Protocol):
    """Something in the ready lane of a queue; below 0 it stands at the head."""

    @property
    def at(self) -> float: ...


R = TypeVar("R", bound=Placed)


def in_turn(ready: Iterator[R], due: Iterator[R], *, due_first: bool) -> Iterator[R]:
    """The jobs of a queue in the order they are to be taken, each lane read no further than asked for.

    What stands at the head comes first. Then the lanes take turns as long as both have work, so that neither
    fresh jobs nor those that waited out a delay keep the others waiting.
    """
    row = next(ready, None)
    while row is not None and row.at < 0:
        yield row
        row = next(ready, None)
    fresh = ready if row is None else chain([row], ready)
    lanes = [due, fresh] if due_first else [fresh, due]
    while lanes:
        for lane in tuple(lanes):
            row = next(lane, None)
            if row is None:
                lanes.remove(lane)
            else:
                yield row


def taken_in(counters: Counters, *, alone: bool, now: float) -> tuple[Counters, Entry]:
    """Counters and history entry of a job whose lease ran out.

    Popped alone, it may be what brought its worker down, and keeps its attempt. Popped together with others,
    nobody knows whether it had started: the attempt is given back, and from now on it is popped alone.
    """
    attempt = counters.attempts
    if alone:
        return counters, Entry(Event.LEASE_EXPIRED, now, attempt, "the lease ran out")
    given_back = replace(counters, attempts=attempt - 1, interruptions=counters.interruptions + 1)
    return given_back, Entry(Event.INTERRUPTED, now, attempt, "the lease ran out; popped together with others")


def retried(job_id: str, counters: Counters, now: float) -> Entry:
    """The history entry of the job that repeats the failed one with this id."""
    return Entry(Event.RETRIED, now, counters.attempts, f"repeats {job_id}")


def key_held(job: Envelope, holder: str) -> KeyHeld:
    """The error of a retry whose unique key another job holds."""
    said = "" if job.ties is None or job.ties.key is None else f" {job.ties.key.said!r}"
    return KeyHeld(
        f"The failed job {job.id} ({job.name}) is not retried: its unique key{said} is held by the job {holder}. "
        "Retry it when that one has ended, or cancel that one.",
        holder=holder,
    )


def storable(error: ErrorRecord) -> ErrorRecord:
    """The error in a form that every store can hold, whatever it says and whoever described it."""
    return ErrorRecord(
        type=history.storable(error.type),
        message=history.storable(error.message),
        traceback=history.storable(error.traceback),
        causes=tuple(history.storable(cause) for cause in error.causes),
    )


def moved_deadline(retry_until: float | None, *, pushed_at: float, now: float) -> float | None:
    """The deadline of a retried job: as far from now as it was from the push."""
    return None if retry_until is None else now + (retry_until - pushed_at)


class End(Enum):
    """How a job has ended, as far as its chain and its batch are concerned.

    `REMOVED`: somebody took it out (cancel, clear, forget). `SKIPPED`: it ended quietly.
    """

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    REMOVED = "removed"

    @classmethod
    def of(cls, settlement: Ack | Fail) -> End:
        """What the settlement makes of the job."""
        if isinstance(settlement, Fail):
            return cls.FAILED
        return cls.SKIPPED if settlement.skipped else cls.DONE


def has_failed_before(member: Envelope) -> bool:
    """Whether the batch has counted this member already: what is retried had failed."""
    return member.retried_from is not None


def counted(batch: StoredBatch, end: End, *, again: bool, now: float) -> StoredBatch:
    """The batch after one member has ended. `again`: it had failed before, and is counted as failed."""
    if again and end is End.FAILED:
        return batch
    moved = replace(batch, failed=batch.failed - 1) if again else replace(batch, pending=batch.pending - 1)
    match end:
        case End.DONE:
            return replace(moved, done=moved.done + 1)
        case End.FAILED:
            cancels = not batch.allow_failures and batch.cancelled_at is None
            return replace(moved, failed=moved.failed + 1, cancelled_at=now if cancels else batch.cancelled_at)
        case End.SKIPPED | End.REMOVED:
            return replace(moved, skipped=moved.skipped + 1)


def callbacks_due(batch: StoredBatch) -> tuple[Role, ...]:
    """The callbacks that are to run as the batch stands, as far as they have not been run before."""
    roles: list[Role] = []
    if batch.failed:
        roles.append(Role.CATCH)
    if batch.is_whole and not batch.pending:
        if not batch.failed and batch.cancelled_at is None:
            roles.append(Role.THEN)
        roles.append(Role.FINALLY)
    return tuple(roles)
