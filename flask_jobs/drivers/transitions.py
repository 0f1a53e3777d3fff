"""What every driver reckons alike when a job changes its place. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Protocol, TypeVar

from .. import history
from ..envelope import Counters, Entry, ErrorRecord, Event

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
