"""What all parts of the memory driver share: the lock, the clock, the shelves, the ids and keys that are known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from ...driver import KeepsLocks
from ...envelope import After, Envelope, Reservation, instant
from ...pushes import Push, Pushed
from ...stored import State
from ...stores import MemoryStore
from .shelves import Failure, Job, Shelves


@dataclass(frozen=True, slots=True)
class _Hold:
    """Who holds a unique key, and until when at the latest."""

    job_id: str
    until: float


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
        self._keys: dict[str, _Hold] = {}

    @property
    def store(self) -> MemoryStore:
        """Locks, limits and counts in the same memory."""
        return self._beside

    def job_of(self, reservation: Reservation) -> Job | None:
        """The reserved job, if this delivery is still its own."""
        job = self.shelves.jobs.get(reservation.envelope.id)
        is_held = job is not None and job.state is State.RESERVED and job.receipt == reservation.receipt
        return job if is_held else None

    def is_known(self, job_id: str, now: float) -> bool:
        """Whether the id is in use or remembered."""
        return job_id in self.shelves.jobs or job_id in self.failures or self.ended.get(job_id, now) > now

    def shelve(self, push: Push, head: float | None = None) -> Pushed:
        """Store the job, unless its id is known or its key held. `head` is the place of what goes to the front."""
        envelope, now = push.envelope, self.now()
        if self.is_known(envelope.id, now):
            return Pushed(envelope.id, stored=False)
        holder = self.take_key(envelope, now)
        if holder is not None:
            return Pushed(envelope.id, stored=False, holder=holder)
        job = Job(envelope, next(self.serial), pushed_at=now)
        job.retry_until = None if push.retry_until is None else instant(push.retry_until, now)
        if not isinstance(push.due, After) or push.due.seconds > 0:
            self.put_back(job, State.DELAYED, instant(push.due, now))
        else:
            front = self.head(envelope.queue) if head is None else head
            self.put_back(job, State.READY, front if push.front else 0.0)
        return Pushed(envelope.id)

    def end(self, job: Job, now: float) -> None:
        """Take the job out for good, with its unique key and the turns it has booked, and remember its id."""
        self.shelves.take(job)
        self.free_key(job.envelope)
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

    def held_by(self, digest: str, now: float) -> str | None:
        """The id of the job that holds the unique key, or None."""
        hold = self._keys.get(digest)
        return hold.job_id if hold is not None and hold.until > now else None

    def take_key(self, envelope: Envelope, now: float) -> str | None:
        """Take the job's unique key, if it has one; gives the job that holds it already, if one does."""
        key = None if envelope.ties is None else envelope.ties.key
        if key is None:
            return None
        holder = self.held_by(key.digest, now)
        if holder is None:
            until = float("inf") if key.seconds is None else now + key.seconds
            self._keys[key.digest] = _Hold(envelope.id, until)
        return holder

    def free_key(self, envelope: Envelope) -> None:
        """Give back the job's unique key, if it is still its own."""
        key = None if envelope.ties is None else envelope.ties.key
        if key is not None and key.digest in self._keys and self._keys[key.digest].job_id == envelope.id:
            del self._keys[key.digest]

    def pauses(self, now: float) -> Mapping[str, float | None]:
        """The queues that are paused now."""
        return {queue: until for queue, until in self.paused_until.items() if until is None or until > now}

    def open_queues(self, queues: Sequence[str]) -> list[str]:
        """Those of the queues that give out jobs."""
        pauses = self.pauses(self.now())
        return [queue for queue in queues if queue not in pauses]

    def _lease_of(self, reservation: Reservation) -> float | None:
        job = self.job_of(reservation)
        return None if job is None else job.at

    def _forget_ended(self, now: float) -> None:
        while self.ended and (oldest := next(iter(self.ended.items())))[1] <= now:
            del self.ended[oldest[0]]
