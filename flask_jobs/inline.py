"""One attempt here and now, without a worker: for the sync driver, and for tests."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

from . import clock, policy
from .control import JobInterrupted
from .driver import Driver
from .envelope import Fail, Reservation, Settled
from .events import Events
from .executor import Attempt, Executor
from .options import WorkerDefaults
from .outcome import Interrupted, Raised, TimedOut
from .pipeline import Timer
from .slate import NoLane
from .worker.alarm import Alarm, can_alarm
from .worker.hooks import Hooks
from .worker.processor import Delivery, Processor, Verdict
from .worker.renewal import Lease
from .worker.telling import Teller

# The caller is not ours to interrupt, so a job that sets no time limit has none.
_UNLIMITED = WorkerDefaults(timeout=None)


class Inline:
    """Judges and tells as a worker does, for a caller that delivers and settles by itself."""

    def __init__(
        self,
        driver: Driver,
        executor: Executor,
        events: Events,
        *,
        timer: Timer,
        defaults: WorkerDefaults = _UNLIMITED,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._driver = driver
        self.processor = Processor(
            driver,
            executor,
            lane=NoLane(),
            defaults=defaults,
            timer=timer,
            is_stopping=lambda: False,
            jitter=jitter,
        )
        self._teller = Teller(events, Hooks(driver, executor, timer=timer, defaults=defaults).call)

    def settle(self, verdict: Verdict) -> Settled:
        """Settle what was judged, and tell of it as a worker does."""
        answer = self._driver.settle([verdict.settlement])
        self._teller.tell_all([(verdict.attempt, verdict.settlement)], answer)
        return answer


def held(reservation: Reservation) -> Delivery:
    """A delivery whose lease is nobody's concern."""
    return Delivery(Lease(reservation, math.inf), clock.monotonic())


def run_inline(
    reservation: Reservation, *, driver: Driver, executor: Executor, events: Events, elsewhere: Timer
) -> tuple[Settled, Exception | None]:
    """Run the job in a context of its own; gives what followed and, for the caller to raise, what it failed with.

    An error is final, for nothing here could try again. A timeout is given as `TimeoutError`, for a caller is no job,
    and its ``except Exception`` is to see it. `elsewhere` is the timer where no signal can cut the job short.
    """
    limiting: AbstractContextManager[Timer] = Alarm() if can_alarm() else nullcontext(elsewhere)
    with limiting as timer:
        inline = Inline(driver, executor, events, timer=timer)
        attempt = inline.processor.attempt(held(reservation))
        attempt.end()
        verdict = inline.processor.verdict(held(reservation), _final(attempt))
        answer = inline.settle(verdict)
    if isinstance(attempt.outcome, Interrupted):
        # What stops the job around this one stops both.
        raise JobInterrupted(attempt.outcome.reason)
    if isinstance(attempt.outcome, TimedOut):
        return answer, _timeout(reservation, attempt.outcome)
    if not isinstance(verdict.settlement, Fail):
        return answer, None
    error = policy.failure(attempt.outcome, verdict.settlement.error)
    if not isinstance(error, Exception):  # such as SystemExit out of the job
        raise error
    return answer, error


def _final(attempt: Attempt) -> Attempt:
    """The attempt as the last one of its job, if it has gone wrong."""
    if not isinstance(attempt.outcome, Raised | TimedOut):
        return attempt
    return replace(attempt, options=replace(attempt.options, max_attempts=1, sets_attempts=True))


def _timeout(reservation: Reservation, outcome: TimedOut) -> TimeoutError:
    # It may have been stopped by the limit of a job around it: which one it was, only the error says.
    own = f" (time limit {outcome.limit:g} s)" if outcome.limit else ""
    error = TimeoutError(f"{reservation.envelope.name}{own} was stopped: {outcome.error}")
    error.__cause__ = outcome.error
    return error
