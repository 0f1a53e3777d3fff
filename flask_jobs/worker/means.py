"""How long jobs of each name take, as far as a pop needs to know it to take several of them at a time."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping

from ..envelope import Room

MOST = 50
"""How many jobs one pop takes at most."""

# What the latest run counts for in a mean.
_WEIGHT = 0.25

# Sums of means are not exact, and one that fills a box to the brim is to fit.
_SLACK = 1e-9


class Means:
    """The running mean of what each name takes, and the room that a pop has because of it. Safe to share by threads.

    `most` is how many jobs one pop may take, 1 for none but the first.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._all: dict[str, float] = {}
        self._short: dict[str, float] = {}

    @property
    def short(self) -> Mapping[str, float]:
        """Those of the names that may share a pop, in seconds."""
        return self._short

    def note(self, name: str, seconds: float) -> None:
        """A job of this name has taken so long, all in all."""
        with self._lock:
            before = self._all.get(name)
            mean = seconds if before is None else before + _WEIGHT * (seconds - before)
            self._all[name] = mean
            if mean < _ALONE.box:
                self._short[name] = mean
            else:
                self._short.pop(name, None)

    def expected(self, name: str) -> float:
        """How much of a worker's box a job of this name fills, in seconds; one of unknown name fills it all."""
        return self._short.get(name, _ALONE.box)

    def room(self, wanted: int, *, workers: int = 1) -> Room:
        """What the next pop may take, `wanted` jobs at most, and no more than would fit if they were all the quickest.

        What a pop looks at and leaves is locked for a moment, and others would pass it by for a queue that comes later.
        If it is for several workers, who run what it brings side by side, there may be a long job for each of them.
        """
        with self._lock:
            means = dict(self._short) if workers == 1 else {name: self.expected(name) for name in self._all}
        box = _ALONE.box * workers + _SLACK
        limit, quickest = min(self._most, wanted), min(means.values(), default=math.inf)
        if limit * quickest > box:
            limit = max(1, int(_ALONE.box / quickest)) * workers
        return Room(limit, box, means) if limit > 1 else _ALONE


_ALONE = Room(limit=1)
