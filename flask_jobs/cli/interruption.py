"""Ending long work between two steps instead of within one."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType


class Interruption:
    """Within the block the first Ctrl-C is only noted, so that the step at work is finished; the second one ends it."""

    def __init__(self) -> None:
        self.requested = False
        self._catches = threading.current_thread() is threading.main_thread()

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
