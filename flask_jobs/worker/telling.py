"""What is told of settlements that were applied, and of those that were not: hooks, signals and log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from .. import policy
from ..envelope import Ack, Fail, Followed, Release, Settled, Settlement, instant
from ..events import Events
from ..executor import Attempt
from ..outcome import Interrupted, Skipped, TimedOut

LEASE_PASSED = "its lease had passed to somebody else"
"""Why a settlement comes too late."""

Hook = Callable[[Attempt, Fail, BaseException], None]
"""Sees to the `failed()` method of a job that has failed for good."""


class Teller:
    """Tells of the ends of attempts, in the process that has settled them."""

    def __init__(self, events: Events, call_hook: Hook) -> None:
        self._events = events
        self._call_hook = call_hook

    def tell_all(self, ended: Sequence[tuple[Attempt, Settlement]], settled: Settled) -> None:
        """Tell of settlements that the store has answered, and of what followed from them."""
        late = {settlement.reservation.receipt for settlement in settled.stale}
        for attempt, settlement in ended:
            if settlement.reservation.receipt in late:
                self.tell_lost(attempt, settlement, LEASE_PASSED, known=True)
            else:
                self.tell(attempt, settlement)
        for followed in settled.followed:
            self._tell_followed(followed)

    def tell(self, attempt: Attempt, settlement: Settlement) -> None:
        """Tell of a settlement that was applied: the job's hook, then signals and log."""
        self._tell_of_the_cut(attempt, settlement)
        reservation = settlement.reservation
        match settlement:
            case Ack():
                reason = attempt.outcome.reason if isinstance(attempt.outcome, Skipped) else None
                self._events.processed(reservation, job=attempt.job, seconds=attempt.seconds, reason=reason)
            case Release():
                delay = instant(settlement.due, settlement.entry.at) - settlement.entry.at
                self._events.released(
                    reservation,
                    job=attempt.job,
                    delay=delay,
                    reason=settlement.entry.reason,
                    error=getattr(attempt.outcome, "error", None),
                    is_expected=attempt.job is not None or isinstance(attempt.outcome, Interrupted | TimedOut),
                )
            case Fail():
                error = policy.failure(attempt.outcome, settlement.error)
                self._call_hook(attempt, settlement, error)
                self._events.failed(reservation, job=attempt.job, error=error)
            case _:
                assert_never(settlement)

    def _tell_followed(self, followed: Followed) -> None:
        """Tell of a job that the end of another has brought about."""
        if followed.holder is None:
            self._events.dispatched(followed.envelope)
        else:
            self._events.dropped(followed.envelope, holder=followed.holder)

    def tell_lost(self, attempt: Attempt, settlement: Settlement, reason: str, *, known: bool) -> None:
        """Tell of a settlement that changed nothing, or of which nothing is known."""
        self._events.settlement_lost(settlement.reservation, job=attempt.job, reason=reason, known=known)

    def _tell_of_the_cut(self, attempt: Attempt, settlement: Settlement) -> None:
        match attempt.outcome:
            case TimedOut(limit, error):
                self._events.timed_out(settlement.reservation, job=attempt.job, seconds=limit, error=error)
            case Interrupted(reason):
                self._events.interrupted(settlement.reservation, job=attempt.job, reason=reason)
            case _:
                pass
