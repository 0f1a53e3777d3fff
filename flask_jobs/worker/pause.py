"""Waiting while the store is away, without flooding the log."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from .. import clock

logger = logging.getLogger(__name__)

_SHORTEST, _LONGEST = 0.1, 5.0

# A pause notices within so long that it is to end.
_SLICE = 0.05

# While an outage lasts, it is logged this often.
_REMINDER = 60.0


def pause(seconds: float, *, until: Callable[[], bool]) -> None:
    """Sleep so long, or until `until()` turns true."""
    ends = clock.monotonic() + seconds
    while not until() and (left := ends - clock.monotonic()) > 0:
        time.sleep(min(left, _SLICE))


class Outage:
    """A run of failures of one store: growing pauses, one line at its begin, one a minute, one at its end."""

    def __init__(self) -> None:
        self._pause = _SHORTEST
        self._began: float | None = None
        self._told = 0.0

    @property
    def seconds(self) -> float:
        """How long the store has been away."""
        return 0.0 if self._began is None else clock.monotonic() - self._began

    def next_pause(self) -> float:
        """Seconds to wait before the next try: 0.1, doubled with each, up to 5."""
        self._pause, seconds = min(_LONGEST, self._pause * 2), self._pause
        return seconds

    def has(self, error: Exception) -> None:
        """The store failed again."""
        present = clock.monotonic()
        if self._began is None:
            self._began = self._told = present
            logger.warning("The store is away; trying again until it is back: %s", error)
        elif present - self._told >= _REMINDER:
            self._told = present
            logger.warning("The store has been away for %.0f s: %s", self.seconds, error)

    def is_over(self) -> None:
        """The store answered."""
        self._pause = _SHORTEST
        if self._began is not None:
            logger.warning("The store is back after %.1f s.", self.seconds)
            self._began = None
