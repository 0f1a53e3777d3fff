"""Ending long work between two steps instead of within one."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType

# Seconds. Who waits for the lock of a SQLite file looks for it at times, and would hardly ever find it free.
_BREATH = 0.01


class Interruption:
    """Within the block the first Ctrl-C is only noted, so that the step at work is finished; the second one ends it."""

    def __init__(self) -> None:
        self.requested = False
        self._has_begun = False
        self._catches = threading.current_thread() is threading.main_thread()

    def goes_on(self) -> bool:
        """Whether there is to be another step. Before each but the first it lets others at the store."""
        if self._has_begun and not self.requested:
            time.sleep(_BREATH)
        self._has_begun = True
        return not self.requested

    def __enter__(self) -> Interruption:
        if self._catches:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._catches:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
