"""Time limits by SIGALRM: raises in a job's own code, in the main thread, and nowhere else."""

from __future__ import annotations

import logging
import math
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import FrameType
from typing import Any, Self

from .. import clock
from ..control import JobInterrupted, JobTimeout

logger = logging.getLogger(__name__)

# A job that swallows its timeout, or takes it in a finalizer that cannot pass it on, gets it again after so long.
AGAIN = 5.0

# How soon to try again when the alarm finds another frame running than the job's.
_RETRY = 0.001

# The kernel takes no longer timer. One that comes while the time is not up yet comes again.
_LONGEST = 1e9

# Timers count in microseconds, the monotonic clock in nanoseconds.
_TOLERANCE = 0.001

HAD_TO_STOP = "the worker had to stop before the job was done"


def time_is_up(limit: float) -> str:
    """What the error of a timeout says."""
    return f"The attempt reached its time limit of {limit:g} s."


def can_alarm() -> bool:
    """Whether a signal can cut short what runs in this thread: it is the main one, and the platform has SIGALRM."""
    has_alarm = hasattr(signal, "SIGALRM") and hasattr(signal, "setitimer")
    return has_alarm and threading.current_thread() is threading.main_thread()


class Cutter(ABC):
    """A `Timer` that cuts a job short at its limit, or when `interrupt` is called. It works between enter and exit."""

    @abstractmethod
    def __call__(self, limit: float, body: Callable[[], None], *, grace: float = 0) -> None:
        """Let the body run for `limit` seconds (0: without limit) and `grace` more."""

    @property
    @abstractmethod
    def is_interrupted(self) -> bool:
        """Whether `interrupt` was called."""

    @abstractmethod
    def interrupt(self) -> None:
        """Cut short what runs now and whatever runs next. Called in the main thread, also by a signal handler."""

    def insist(self) -> None:
        """Work again, if a job has taken away what this works by. Called between jobs, once in a while."""

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(self, *exception: object) -> None: ...


class Alarm(Cutter):
    """A `Timer` that cuts a job short at its limit, or when `interrupt` is called.

    It works between `__enter__` and `__exit__`, which take and give back SIGALRM, in the main thread. Elsewhere
    nothing can stop a job from outside: then a warning is logged once, at the first job with a limit.

    A signal handler runs between two instructions of whatever frame is running. This one raises only if the body
    is on the stack, and never in `__call__`, which opens and closes the region, nor in a finalizer or another
    handler that happens to run there. So what it raises comes out of the body or not at all.

    One may work within the body of another: the timer is set for whichever is due first, and the inner one hands on
    what is due of the outer.
    """

    def __init__(self) -> None:
        self._handler = self._fire
        self._previous: Any = None
        self._is_installed = False
        self._is_foreign = False
        self._is_open = False
        self._is_interrupted = False
        self._has_warned = False
        self._limit = 0.0
        self._due = 0.0
        self._displaced: tuple[float, float] | None = None
        self._around: Alarm | None = None
        self._within: Alarm | None = None
        self._cut: JobTimeout | JobInterrupted | None = None

    def __enter__(self) -> Self:
        if can_alarm():
            self._is_foreign = signal.getitimer(signal.ITIMER_REAL)[0] > 0
            self._previous = signal.signal(signal.SIGALRM, self._handler)
            self._is_installed = True
            around = getattr(self._previous, "__self__", None)
            if isinstance(around, Alarm):
                self._around, around._within = around, self
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_installed:
            self._is_installed = False
            if self._around is not None:
                self._around._within = None
            signal.signal(signal.SIGALRM, signal.SIG_DFL if self._previous is None else self._previous)

    @property
    def is_interrupted(self) -> bool:
        """Whether `interrupt` was called."""
        return self._is_interrupted

    def insist(self) -> None:
        """Take SIGALRM again if a job has taken it."""
        if self._is_installed and signal.getsignal(signal.SIGALRM) is not self._handler:
            signal.signal(signal.SIGALRM, self._handler)

    def interrupt(self) -> None:
        """Cut short what runs now and whatever runs next. Called by a signal handler in the main thread."""
        self._is_interrupted = True
        if self._is_open:
            self._arm(_RETRY)

    def __call__(self, limit: float, body: Callable[[], None], *, grace: float = 0) -> None:
        """Let the body run for `limit` seconds (0: without limit) and `grace` more."""
        if not self._is_installed:
            self._warn(limit)
            body()
            return
        self._cut = self._displaced = None
        self._limit, began = limit, clock.monotonic()
        self._due = began + limit + grace
        self._is_open = True
        try:
            if self._is_interrupted:
                raise JobInterrupted(HAD_TO_STOP)
            if limit:
                self._arm(limit + grace)
            _inside(body)
        except (JobTimeout, JobInterrupted):
            raise
        except BaseException as error:  # what a job raises while it is being stopped does not hide that it was
            if self._cut is None:
                raise
            raise self._cut from error
        finally:
            # From here on the handler raises nothing, also for an alarm that is already on its way.
            self._is_open = False
            if self._displaced is not None:
                self._give_back(self._displaced, began)

    def _arm(self, delay: float) -> None:
        if self._within is not None and self._within._is_open:  # which has the timer, and hands on what is due here
            self._within._arm(delay)
            return
        before = signal.setitimer(signal.ITIMER_REAL, min(delay, self._rest_around(), _LONGEST), AGAIN)
        if self._displaced is None:
            self._displaced = before

    def _rest(self) -> float:
        """In how many seconds it is to go off, or one around it; infinite if none is."""
        own = math.inf
        if self._is_open and self._cut is not None:
            own = AGAIN
        elif self._is_open and self._is_interrupted:
            own = _RETRY
        elif self._is_open and self._limit:
            own = max(_RETRY, self._due - clock.monotonic())
        return min(own, self._rest_around())

    def _rest_around(self) -> float:
        return math.inf if self._around is None else self._around._rest()

    def _give_back(self, displaced: tuple[float, float], began: float) -> None:
        """Stop the timer, and let one that was running before (a test runner's) run on."""
        delay, interval = displaced
        around = self._rest_around()
        if around < math.inf:
            signal.setitimer(signal.ITIMER_REAL, min(around, _LONGEST), AGAIN)
            return
        if delay:
            self._is_foreign = True
            delay = max(_RETRY, delay - (clock.monotonic() - began))
        signal.setitimer(signal.ITIMER_REAL, delay, interval)

    def _fire(self, number: int, frame: FrameType | None) -> None:
        cut = self._why() if self._is_open else None
        if cut is None and self._around is not None:
            self._around._fire(number, frame)
        elif cut is None:
            self._pass_on(number, frame)
        elif _is_in_the_body(frame):
            self._cut = cut
            raise cut
        else:
            self._arm(_RETRY)

    def _why(self) -> JobTimeout | JobInterrupted | None:
        if self._is_interrupted:
            return JobInterrupted(HAD_TO_STOP)
        if self._limit and clock.monotonic() >= self._due - _TOLERANCE:
            return JobTimeout(time_is_up(self._limit))
        return None

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """Hand on an alarm that was set before the worker, and drop one of our own that came too late."""
        if self._is_foreign and callable(self._previous) and signal.getitimer(signal.ITIMER_REAL)[0] == 0:
            self._previous(number, frame)

    def _warn(self, limit: float) -> None:
        if limit and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "Time limits cannot be enforced in this thread (%s): they need SIGALRM and the main thread. A job "
                "without `async` runs until it ends by itself.",
                threading.current_thread().name,
            )


def _inside(body: Callable[[], None]) -> None:
    body()


_REGION, _INSIDE = Alarm.__call__.__code__, _inside.__code__


def _is_in_the_body(frame: FrameType | None) -> bool:
    """Whether `_inside` is what the region has called, here or further up."""
    while frame is not None and frame.f_back is not None:
        if frame.f_back.f_code is _REGION:
            return frame.f_code is _INSIDE
        frame = frame.f_back
    return False
