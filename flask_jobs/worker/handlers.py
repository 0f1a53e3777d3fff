"""SIGTERM, SIGINT and SIGQUIT while a worker runs: the first asks it to stop, the second cuts its job short."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

STOPS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGQUIT") if hasattr(signal, name))
"""The signals that ask for a stop, as far as the platform has them."""


class Handlers:
    """Calls `stop` at the first of these signals and `hurry` at each further one.

    Both run within a signal handler, where no lock may be taken. Off the main thread no handler can be set, and
    none is. A process forked by a job dies of these signals as it would without a worker around.

    Under a supervisor `is_hurried` says whether there is hurry: some process managers signal every process of a
    service, so that a second signal may be the first one over again.
    """

    def __init__(
        self, stop: Callable[[], None], hurry: Callable[[], None], is_hurried: Callable[[], bool] | None = None
    ) -> None:
        self._stop = stop
        self._hurry = hurry
        self._is_hurried = is_hurried
        self._has_come = False
        self._handler = self._receive
        self._previous: dict[signal.Signals, Any] = {}
        self._blocked: set[int] = set()
        self._pid = os.getpid()

    def __enter__(self) -> Handlers:
        self._pid = os.getpid()
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._handler) for number in STOPS}
            self._blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()

    def insist(self) -> None:
        """Take the signals again if a job has taken them or shut them out, or nothing could stop the worker."""
        if not self._previous:
            return
        for number in STOPS:
            if signal.getsignal(number) is not self._handler:
                signal.signal(number, self._handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        hurried = self._has_come if self._is_hurried is None else self._is_hurried()
        self._has_come = True
        self._stop()
        if hurried:
            self._hurry()
