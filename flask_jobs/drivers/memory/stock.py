"""What all parts of the memory driver share: the lock, the clock, the shelves, and the ids that are known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from ...driver import Driver
from ...envelope import State
from .shelves import Failure, Job, Shelves


class Stock(Driver):
    """The stored jobs behind one lock. Everything but the lock is touched with `changing` held only."""

    def __init__(self, now: Callable[[], float], *, remember_ids: float) -> None:
        self.now = now
        self.remember_ids = remember_ids
        self.changing = threading.Condition()
        self.shelves = Shelves()
        self.failures: dict[str, Failure] = {}
        self.serial = count(1)
        self.ended: dict[str, float] = {}
        self.paused_until: dict[str, float | None] = {}

    def is_known(self, job_id: str, now: float) -> bool:
        """Whether the id is in use or remembered."""
        return job_id in self.shelves.jobs or job_id in self.failures or self.ended.get(job_id, now) > now

    def end(self, job: Job, now: float) -> None:
        """Take the job out for good, and remember its id."""
        self.shelves.take(job)
        self._forget_ended(now)
        self.ended[job.envelope.id] = job.pushed_at + self.remember_ids

    def put_back(self, job: Job, state: State, at: float) -> None:
        """Let the job wait in a lane, held by nobody."""
        job.token, job.progress = None, None
        self.shelves.put(job, state, at)
        self.changing.notify_all()

    def head(self, queue: str) -> float:
        """The place before all that is ready in the queue."""
        return (self.shelves.first(queue, State.READY) or 0.0) - 1.0

    def pauses(self, now: float) -> Mapping[str, float | None]:
        """The queues that are paused now."""
        return {queue: until for queue, until in self.paused_until.items() if until is None or until > now}

    def open_queues(self, queues: Sequence[str]) -> list[str]:
        """Those of the queues that give out jobs."""
        pauses = self.pauses(self.now())
        return [queue for queue in queues if queue not in pauses]

    def _forget_ended(self, now: float) -> None:
        while self.ended and (oldest := next(iter(self.ended.items())))[1] <= now:
            del self.ended[oldest[0]]
