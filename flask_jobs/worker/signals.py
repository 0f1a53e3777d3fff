"""SIGUSR2 and SIGCONT: pause, and go on."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class PauseSignals:
    """Remembers which of the two came last. Under a supervisor, which acts on them itself, it makes them harmless."""

    def __init__(self) -> None:
        self._is_paused = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> PauseSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGUSR2, signal.SIGCONT):
                self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def is_paused(self) -> bool:
        """Whether the worker is to take no job."""
        return self._is_paused

    def _receive(self, number: int, frame: FrameType | None) -> None:
        self._is_paused = number == signal.SIGUSR2
