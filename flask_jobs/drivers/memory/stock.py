"""What all parts of the memory driver share: the lock, the clock, the shelves, and the ids that are known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count

from ...driver import KeepsLocks
from ...envelope import Reservation, State
from ...stores import MemoryStore
from .shelves import Failure, Job, Shelves


class Stock(KeepsLocks):
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
        self._beside = MemoryStore(now=lambda: self.now(), lease_of=self._lease_of, lock=self.changing)

    @property
    def store(self) -> MemoryStore:
        """Locks, limits and counts in the same memory."""
        return self._beside

    def held(self, reservation: Reservation) -> Job | None:
        """The reserved job, if this delivery is still its own."""
        job = self.shelves.jobs.get(reservation.envelope.id)
        is_held = job is not None and job.state is State.RESERVED and job.receipt == reservation.receipt
        return job if is_held else None

    def is_known(self, job_id: str, now: float) -> bool:
        """Whether the id is in use or remembered."""
        return job_id in self.shelves.jobs or job_id in self.failures or self.ended.get(job_id, now) > now

    def end(self, job: Job, now: float) -> None:
        """Take the job out for good, remember its id, and give back what it has booked."""
        self.shelves.take(job)
        self._beside.give_back(job.envelope.id)
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

    def _lease_of(self, reservation: Reservation) -> float | None:
        job = self.held(reservation)
        return None if job is None else job.at

    def _forget_ended(self, now: float) -> None:
        while self.ended and (oldest := next(iter(self.ended.items())))[1] <= now:
            del self.ended[oldest[0]]
