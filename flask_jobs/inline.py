"""One attempt here and now, without a worker: for the sync driver, and for tests."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace

from . import clock, policy
from .control import JobInterrupted
from .driver import Driver
from .envelope import Fail, Reservation
from .events import Events
from .executor import Executor
from .options import WorkerDefaults
from .outcome import Interrupted, Raised, TimedOut
from .pipeline import Timer, untimed
from .worker.processor import Delivery, Processor, Verdict
from .worker.renewal import Lease

# The caller's thread is not ours to interrupt, so a job that sets no time limit has none.
_UNLIMITED = WorkerDefaults(timeout=None)


def processor(
    driver: Driver,
    executor: Executor,
    events: Events,
    *,
    timer: Timer = untimed,
    defaults: WorkerDefaults = _UNLIMITED,
    jitter: Callable[[], float] = random.random,
) -> Processor:
    """What judges and tells as a worker does, for a caller that settles by itself."""
    return Processor(driver, executor, events, defaults=defaults, timer=timer, is_stopping=lambda: False, jitter=jitter)


def held(reservation: Reservation) -> Delivery:
    """A delivery whose lease is nobody's concern."""
    return Delivery(Lease(reservation, math.inf), clock.monotonic())


def run_inline(reservation: Reservation, *, driver: Driver, executor: Executor, events: Events) -> None:
    """Run the job in a context of its own and raise what it fails with.

    An error is final, for nothing here could try again; a job that puts itself back is only told of. A timeout is
    raised as `TimeoutError`, for a caller is no job, and its ``except Exception`` is to see it.
    """
    attempt = executor.run(reservation, defaults=_UNLIMITED)
    attempt.end()
    options = attempt.options
    if isinstance(attempt.outcome, Raised | TimedOut):
        options = replace(options, max_attempts=1, sets_attempts=True)
    settlement = policy.decide(reservation, attempt.outcome, options, now=clock.now(), jitter=0)
    processor(driver, executor, events).tell(Verdict(held(reservation), attempt, settlement))
    if isinstance(attempt.outcome, Interrupted):
        # What stops the job around this one stops both.
        raise JobInterrupted(attempt.outcome.reason)
    if isinstance(attempt.outcome, TimedOut):
        raise _timeout(reservation, attempt.outcome) from attempt.outcome.error
    if isinstance(settlement, Fail):
        raise policy.failure(attempt.outcome, settlement.error)


def _timeout(reservation: Reservation, outcome: TimedOut) -> TimeoutError:
    # Without a limit of its own it was stopped by that of a job around it.
    said = f"it reached its time limit of {outcome.limit:g} s." if outcome.limit else str(outcome.error)
    return TimeoutError(f"{reservation.envelope.name} was stopped: {said}")
