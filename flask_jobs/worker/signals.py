"""SIGUSR2 and SIGCONT: pause, and go on. And SIGHUP, which is no reason for a worker to die."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class PauseSignals:
    """Remembers whether SIGUSR2 or SIGCONT came last. Under a supervisor, which acts on them, it makes them harmless.

    Watched workers also outlive SIGHUP, which the kernel sends to a stopped one whose supervisor has died.
    """

    def __init__(self, *, is_watched: bool = False) -> None:
        self._is_paused = False
        self._numbers = [signal.SIGUSR2, signal.SIGCONT] + [signal.SIGHUP] * is_watched
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> PauseSignals:
        if threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def is_paused(self) -> bool:
        """Whether the worker is to take no job."""
        return self._is_paused

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if number != signal.SIGHUP:
            self._is_paused = number == signal.SIGUSR2
