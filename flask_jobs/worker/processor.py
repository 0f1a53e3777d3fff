"""One delivery: run it, decide, and tell when it is settled. Settling itself is the loop's."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from .. import clock, log, policy
from ..driver import Driver, StoresFailedJobs, TracksProgress
from ..envelope import Ack, Fail, Followed, Hook, Progress, Release, Reservation, Settlement, instant
from ..errors import ConnectionLost, StoreRefused
from ..events import Events, about
from ..executor import Attempt, Executor
from ..job import Job
from ..options import WorkerDefaults
from ..outcome import Hopeless, Interrupted, Newer, Skipped, TimedOut, Unknown
from ..pipeline import Timer
from .gates import StoredGates
from .progress import Reporter
from .renewal import Lease

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A reservation in this worker's hands. `received`: when it came, on the monotonic clock."""

    lease: Lease
    received: float

    @property
    def reservation(self) -> Reservation:
        """What the driver handed out."""
        return self.lease.reservation

    def now(self) -> float:
        """The store's present, as far as this host can tell."""
        return self.reservation.now + (clock.monotonic() - self.received)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to become of a delivery, and why."""

    delivery: Delivery
    attempt: Attempt
    settlement: Settlement

    @property
    def is_done(self) -> bool:
        """Whether nothing is lost if it is settled a little later, together with the next pop."""
        return isinstance(self.settlement, Ack)


class Processor:
    """Judges deliveries and tells of those that are settled."""

    def __init__(
        self,
        driver: Driver,
        executor: Executor,
        events: Events,
        *,
        defaults: WorkerDefaults,
        timer: Timer,
        is_stopping: Callable[[], bool],
        jitter: Callable[[], float],
    ) -> None:
        self._driver = driver
        self._executor = executor
        self._events = events
        self._defaults = defaults
        self._timer = timer
        self._is_stopping = is_stopping
        self._jitter = jitter

    def judge(self, delivery: Delivery) -> Verdict:
        """Run the job and decide what is to become of it; nothing is settled yet."""
        return self.verdict(delivery, self.attempt(delivery))

    def attempt(self, delivery: Delivery) -> Attempt:
        """Run the job, unless its batch has been cancelled."""
        reservation = delivery.reservation
        reporter = Reporter(self._driver, reservation) if isinstance(self._driver, TracksProgress) else None
        attempt = self._executor.run(
            reservation,
            defaults=self._defaults,
            timer=self._timer,
            is_stopping=self._is_stopping,
            report=reporter or _drop,
            now=delivery.now(),
            gates=None if reservation.envelope.ties is None else StoredGates(self._driver, reservation),
        )
        if reporter is not None:
            reporter.close()
        return attempt

    def verdict(self, delivery: Delivery, attempt: Attempt) -> Verdict:
        """Decide what is to become of the delivery."""
        settlement = policy.decide(
            delivery.reservation, attempt.outcome, attempt.options, now=delivery.now(), jitter=self._jitter()
        )
        if not isinstance(settlement, Release):
            attempt.end()
        return Verdict(delivery, attempt, settlement)

    def tell(self, verdict: Verdict) -> None:
        """Tell of a settlement that was applied: the job's hook, then signals and log."""
        self._tell_of_the_cut(verdict)
        attempt, settlement = verdict.attempt, verdict.settlement
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
                )
            case Fail():
                error = policy.failure(attempt.outcome, settlement.error)
                self._call_hook(verdict, error)
                self._events.failed(reservation, job=attempt.job, error=error)
            case _:
                assert_never(settlement)

    def tell_followed(self, followed: Followed) -> None:
        """Tell of a job that the end of another has brought about."""
        if followed.holder is None:
            self._events.dispatched(followed.envelope)
        else:
            self._events.dropped(followed.envelope, holder=followed.holder)

    def tell_lost(self, verdict: Verdict, reason: str, *, known: bool) -> None:
        """Tell of a settlement that changed nothing, or of which nothing is known."""
        reservation = verdict.delivery.reservation
        self._events.settlement_lost(reservation, job=verdict.attempt.job, reason=reason, known=known)

    def _tell_of_the_cut(self, verdict: Verdict) -> None:
        attempt, reservation = verdict.attempt, verdict.delivery.reservation
        match attempt.outcome:
            case TimedOut(limit, error):
                self._events.timed_out(reservation, job=attempt.job, seconds=limit, error=error)
            case Interrupted(reason):
                self._events.interrupted(reservation, job=attempt.job, reason=reason)
            case _:
                pass

    def _call_hook(self, verdict: Verdict, error: BaseException) -> None:
        reservation, attempt = verdict.delivery.reservation, verdict.attempt
        job_id = reservation.envelope.id
        if not _may_have_hook(attempt):
            hook = Hook.NONE
        else:
            hook = self._executor.run_hook(reservation, error, timer=self._timer, limit=attempt.options.timeout)
        if not isinstance(self._driver, StoresFailedJobs):
            return
        try:
            self._driver.note_hook(job_id, hook)
        except (ConnectionLost, StoreRefused):
            message = "That failed() of job %s %s is not recorded."
            log.complain(logger, message, job_id, hook.value, fields=about(reservation))


def _may_have_hook(attempt: Attempt) -> bool:
    if attempt.job is None:
        # What failed because it cannot be rebuilt can be rebuilt no better for its hook.
        return not isinstance(attempt.outcome, Hopeless | Newer | Unknown)
    return type(attempt.job).failed is not Job.failed


def _drop(progress: Progress) -> None:
    pass
