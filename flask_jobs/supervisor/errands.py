"""Calls of `failed()` that a healthy worker is to make for a job whose own worker is dead."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from .. import clock
from .child import Child

# How long errands wait for a worker that has nothing else to do, in seconds.
_WAIT = 1.0


class Errands:
    """The ids of the jobs that wait for that. Any thread may add to them."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._since = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, *job_ids: str) -> None:
        """Have it done for these jobs as well."""
        self._waiting.extend(job_ids)

    def give(self, child: Child) -> None:
        """Give this worker as many as it takes before it has read them; the rest is for later, or for others."""
        while self._waiting and child.send(self._waiting[0]):
            self._waiting.popleft()

    def give_to_one_of(self, children: Iterable[Child]) -> None:
        """Give them to the worker that is likely to see to them soonest, if one is to do so now."""
        children = list(children)
        # One that starts is soon free, and how long that takes is limited.
        if not self._waiting or not all(child.has_been_ready for child in children):
            self._since = clock.monotonic()
        if not self._waiting:
            return
        chosen = self._choose([child for child in children if child.is_ready and not child.is_frozen])
        if chosen is not None:
            self.give(chosen)

    def _choose(self, ready: Sequence[Child]) -> Child | None:
        # First one that would not have to end a job of its own before, which may take hours.
        free = next((child for child in ready if child.is_free), None)
        if free is not None or clock.monotonic() - self._since <= _WAIT:
            return free
        # Among the busy, whoever has begun something last is most likely to be between two jobs soon.
        return min(ready, key=lambda child: child.unchanged(child.slate.view(0)), default=None)
