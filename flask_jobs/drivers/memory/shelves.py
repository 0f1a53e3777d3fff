"""Where the memory driver keeps things: jobs by id, and their places in order. No locks and no promises here."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ...envelope import Counters, Entry, Envelope, ErrorRecord, Hook, Progress
from ...stored import FailedJob, State, StoredJob


class Place(NamedTuple):
    """A job's place in its lane.

    `at` is 0 or, at the head of the queue, less for a ready job; when it falls due for a delayed one; when its
    lease ends for a reserved one.
    """

    at: float
    seq: int
    id: str


@dataclass(slots=True)
class Job:
    """A stored job and all that is known of it."""

    envelope: Envelope
    seq: int
    pushed_at: float
    retry_until: float | None = None
    counters: Counters = field(default_factory=Counters)
    history: tuple[Entry, ...] = ()
    state: State = State.READY
    at: float = 0.0
    token: str | None = None
    alone: bool = False
    progress: Progress | None = None

    @property
    def receipt(self) -> str:
        """What names its present delivery."""
        return f"{self.seq}:{self.token}"

    @property
    def place(self) -> Place:
        """Where it stands in its lane."""
        return Place(self.at, self.seq, self.envelope.id)

    def shown(self, now: float) -> StoredJob:
        """The job as an operator sees it."""
        is_due = self.state is State.DELAYED and self.at <= now
        return StoredJob(
            envelope=self.envelope,
            state=State.READY if is_due else self.state,
            counters=self.counters,
            pushed_at=self.pushed_at,
            due=self.at if self.state is State.DELAYED else None,
            leased_until=self.at if self.state is State.RESERVED else None,
            retry_until=self.retry_until,
            history=self.history,
            progress=self.progress,
        )


@dataclass(slots=True)
class Failure:
    """A job given up on, and why."""

    job: Job
    error: ErrorRecord
    failed_at: float
    position: int
    hook: Hook = Hook.PENDING

    def shown(self) -> FailedJob:
        """The failure as an operator sees it."""
        return FailedJob(
            envelope=self.job.envelope,
            error=self.error,
            counters=self.job.counters,
            pushed_at=self.job.pushed_at,
            failed_at=self.failed_at,
            position=self.position,
            history=self.job.history,
            hook=self.hook,
        )


class Shelves:
    """The stored jobs by id, and for each queue and state a lane of them in order."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self._lanes: dict[tuple[str, State], list[Place]] = {}

    def put(self, job: Job, state: State, at: float) -> None:
        """Place the job in a lane, taking it out of the one it was in."""
        self.take(job)
        job.state, job.at = state, at
        self.jobs[job.envelope.id] = job
        insort(self._lanes.setdefault((job.envelope.queue, state), []), job.place)

    def take(self, job: Job) -> None:
        """Take the job off the shelves, if it is there."""
        if self.jobs.pop(job.envelope.id, None) is not None:
            lane = self._lanes[job.envelope.queue, job.state]
            del lane[bisect_left(lane, job.place)]

    def lane(self, queue: str, state: State, *, upto: float = float("inf")) -> Iterator[Job]:
        """The queue's jobs in this state, in order, as far as `upto`. Take nothing while reading."""
        for place in self._lanes.get((queue, state), ()):
            if place.at > upto:
                return
            yield self.jobs[place.id]

    def first(self, queue: str, state: State) -> float | None:
        """The place that comes first in a lane, or None if the lane is empty."""
        lane = self._lanes.get((queue, state))
        return lane[0].at if lane else None

    def count(self, queue: str, state: State, *, upto: float = float("inf")) -> int:
        """How many jobs stand in the lane as far as `upto`."""
        return bisect_left(self._lanes.get((queue, state), []), Place(upto, 1 << 62, ""))

    def queues(self) -> set[str]:
        """The queues that hold a job."""
        return {queue for (queue, _), lane in self._lanes.items() if lane}
