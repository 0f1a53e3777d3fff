"""One delivery: run it, and decide. Settling it is the loop's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .. import clock, policy
from ..driver import Driver, TracksProgress
from ..envelope import Ack, Progress, Release, Reservation, Settlement
from ..executor import Attempt, Executor
from ..options import WorkerDefaults
from ..pipeline import Timer
from ..slate import Lane, NoLane
from .gates import StoredGates
from .post import LaneWitness
from .progress import Reporter
from .renewal import Lease


@dataclass(slots=True)
class Delivery:
    """A reservation in this worker's hands.

    `received`: when it came, on the monotonic clock. `position`: where it stands among those of one pop.
    """

    lease: Lease
    received: float
    position: int = 0

    @property
    def reservation(self) -> Reservation:
        """What the driver handed out."""
        return self.lease.reservation

    def now(self) -> float:
        """The store's present, as far as this host can tell."""
        return self.reservation.now + (clock.monotonic() - self.received)


@dataclass(slots=True)
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
    """Runs deliveries and judges them."""

    def __init__(
        self,
        driver: Driver,
        executor: Executor,
        *,
        lane: NoLane,
        defaults: WorkerDefaults,
        timer: Timer,
        is_stopping: Callable[[], bool],
        jitter: Callable[[], float],
    ) -> None:
        self._tracking = driver if isinstance(driver, TracksProgress) else None
        self._driver = driver
        self._executor = executor
        self._lane = lane
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
        reporter = None if self._tracking is None else Reporter(self._tracking, reservation)
        attempt = self._executor.run(
            reservation,
            defaults=self._defaults,
            timer=self._timer,
            is_stopping=self._is_stopping,
            report=reporter or _drop,
            now=delivery.now(),
            gates=None if reservation.envelope.ties is None else StoredGates(self._driver, reservation),
            witness=LaneWitness(self._lane, delivery.position) if isinstance(self._lane, Lane) else None,
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


def _drop(progress: Progress) -> None:
    pass
