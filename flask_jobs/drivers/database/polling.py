"""Waiting where the server gives no word: looking again and again, soon at first, then less often."""

from __future__ import annotations

import time
from collections.abc import Sequence

_SHORTEST, _LONGEST = 0.01, 0.05


class Polling:
    """Finds it worth looking each time it is asked."""

    def __init__(self) -> None:
        self._asked = 0
        self._pause = _SHORTEST

    def is_in_place(self) -> bool:
        """Always: what is lost is opened anew."""
        return True

    def count(self, queues: Sequence[str]) -> int | None:
        """Always another number."""
        self._asked += 1
        return self._asked

    def pause(self, limit: float) -> None:
        """Wait, a little longer each time."""
        time.sleep(min(self._pause, limit))
        self._pause = min(self._pause * 1.5, _LONGEST)

    def close(self) -> None:
        """Nothing is held."""
