"""Time limits for jobs that run beside others in threads, where no signal arrives."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable
from typing import Self

from .. import clock
from ..control import JobInterrupted, JobTimeout
from .alarm import AGAIN, HAD_TO_STOP, Cutter, time_is_up

_NAME = ("PyThreadState_SetAsyncExc", ctypes.pythonapi)
_raise_in_thread = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)(_NAME)
_clear_thread = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)(_NAME)


class ThreadAlarm(Cutter):
    """Raises in the thread that runs the body, when `tick` finds that its time is up.

    It takes effect between two instructions of Python: what waits in native code is not woken. The interpreter raises
    it a little after it was asked to; what has left the body by then hears nothing of it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._kind: type[JobTimeout] | type[JobInterrupted] | None = None
        self._limit = 0.0
        self._due = float("inf")
        self._is_interrupted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    @property
    def is_interrupted(self) -> bool:
        """Whether `interrupt` was called."""
        return self._is_interrupted

    def interrupt(self) -> None:
        """Cut short what runs now, at the next tick, and whatever runs next."""
        # No lock here, for a signal handler may call it while the thread that it interrupts holds the lock.
        self._is_interrupted = True
        self._due = 0.0

    def tick(self) -> None:
        """Raise what is due. Called time and again by a thread that runs no job."""
        with self._lock:
            if self._thread is None or clock.monotonic() < self._due:
                return
            self._kind = JobInterrupted if self._is_interrupted else JobTimeout
            # A body that swallows it, or a finalizer that cannot pass it on, is told again.
            self._due = clock.monotonic() + AGAIN
            _raise_in_thread(self._thread, self._kind)

    def __call__(self, limit: float, body: Callable[[], None], *, grace: float = 0) -> None:
        """Let the body run for `limit` seconds (0: without limit) and `grace` more."""
        self._kind, self._limit = None, limit
        if self._is_interrupted:
            raise JobInterrupted(HAD_TO_STOP)
        is_over = False
        try:
            self._open(limit + grace if limit else float("inf"))
            try:
                body()
                is_over = True
            finally:
                self._close()
        except (JobTimeout, JobInterrupted) as cut:
            if self._thread is not None:  # struck on its way out; no second one follows so soon
                self._close()
            if not is_over:
                raise self._cut() or cut from None
        except BaseException as error:  # what a job raises while it is being stopped does not hide that it was
            if self._kind is None:
                raise
            raise self._said() from error

    def _open(self, seconds: float) -> None:
        with self._lock:
            self._due = 0.0 if self._is_interrupted else clock.monotonic() + seconds
            self._thread = threading.get_ident()

    def _close(self) -> None:
        """Let nothing more be raised in this thread, also not what was asked for and has not come yet."""
        while self._thread is not None:
            with contextlib.suppress(JobTimeout, JobInterrupted), self._lock:
                _clear_thread(threading.get_ident(), None)
                self._thread = None

    def _cut(self) -> BaseException | None:
        """The error in full, for the interpreter was given its class only; None if the body raised its own."""
        return None if self._kind is None else self._said()

    def _said(self) -> JobTimeout | JobInterrupted:
        if self._kind is JobInterrupted:
            return JobInterrupted(HAD_TO_STOP)
        return JobTimeout(time_is_up(self._limit))
