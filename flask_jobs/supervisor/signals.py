"""The signals that a supervisor takes, as flags that its loop reads, and a wait that they end."""

from __future__ import annotations

import os
import select
import signal
from types import FrameType
from typing import Any

from ..worker.handlers import STOPS


class Signals:
    """Counts requests to stop, and remembers whether the workers are to pause."""

    def __init__(self) -> None:
        self.stops = 0
        self.is_paused = False
        self._previous: dict[int, Any] = {}
        self._reading, self._writing = -1, -1
        self._woken_before = -1

    def __enter__(self) -> Signals:
        self._reading, self._writing = os.pipe()
        for descriptor in (self._reading, self._writing):
            os.set_blocking(descriptor, False)
        self._woken_before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in (*STOPS, signal.SIGUSR2, signal.SIGCONT, signal.SIGCHLD):
            self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._woken_before)
        os.close(self._reading)
        os.close(self._writing)

    def wait(self, seconds: float) -> None:
        """Until one comes, but no longer than that."""
        if select.select([self._reading], [], [], seconds)[0]:
            os.read(self._reading, 4_096)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if number in STOPS:
            self.stops += 1
        elif number in (signal.SIGUSR2, signal.SIGCONT):
            self.is_paused = number == signal.SIGUSR2
