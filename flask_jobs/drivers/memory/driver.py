"""The memory driver: every promise of the port, kept by one lock around plain lists and dicts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import ClassVar

from ... import clock, history
from ...driver import Renewable, TracksProgress
from ...envelope import (
    Ack,
    Fail,
    Followed,
    Popped,
    Progress,
    Reclaimed,
    Release,
    Reservation,
    Room,
    Settled,
    Settlement,
    instant,
)
from ...pushes import Push, Pushed
from ...stored import Sizes, State
from ...validation import queue_name, seconds
from ..transitions import RECLAIMED_AT_ONCE, End, in_turn, storable, taken_in
from .failed import FailedJobs
from .operators import Operators
from .shelves import Failure, Job


class MemoryDriver(Operators, FailedJobs, Renewable, TracksProgress):
    """Keeps jobs in this process's memory. They end with it."""

    durable: ClassVar[bool] = False

    def __init__(
        self, *, retry_after: float = 90.0, remember_ids: float = 3_600.0, now: Callable[[], float] = clock.now
    ) -> None:
        super().__init__(now, remember_ids=seconds(remember_ids, what="remember_ids"))
        self.retry_after = seconds(retry_after, what="retry_after")
        self._settled: dict[tuple[str, str], float] = {}
        self._due_first: dict[str, bool] = {}

    def push(self, pushes: Sequence[Push]) -> list[Pushed]:
        """Store the jobs, each once by its id."""
        for push in pushes:
            queue_name(push.envelope.queue)
        with self.changing:
            heads = {push.envelope.queue: self.head(push.envelope.queue) for push in pushes if push.front}
            return [self.shelve(push, heads.get(push.envelope.queue)) for push in pushes]

    def pop(self, queues: Sequence[str], token: str, room: Room) -> Popped:
        """Take in what expired, then reserve what there is room for."""
        names = [queue_name(queue) for queue in queues]
        with self.changing:
            now = self.now()
            reclaimed = self._take_in(names, now)
            taken = self._choose(names, room, now)
            for job in taken:
                self._reserve(job, token, now, alone=len(taken) == 1)
            next_due = None if taken else self._next_due(names, now)
            return Popped(tuple(_reservation(job, now) for job in taken), now, next_due, tuple(reclaimed))

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Settle deliveries, each whole or not at all, with what follows, and say which came too late."""
        with self.changing:
            now = self.now()
            followed: list[Followed] = []
            stale = [settlement for settlement in settlements if not self._settle(settlement, now, followed)]
            return Settled(tuple(stale), tuple(followed))

    def give_back_key(self, reservation: Reservation) -> bool:
        """Give back the key that a running job still holds."""
        with self.changing:
            job = self.job_of(reservation)
            if job is not None:
                self.free_key(job.envelope)
            return job is not None

    def recover(self, token: str, keep: Collection[str] = ()) -> int:
        """Put back, uncharged and at the head of their queues, what the pop with this token still holds."""
        with self.changing:
            lost = [job for job in self._held_by(token) if job.envelope.id not in keep]
            # The last one goes back first, each before all others.
            for job in reversed(lost):
                job.counters = replace(job.counters, attempts=job.counters.attempts - 1)
                self.put_back(job, State.READY, self.head(job.envelope.queue))
            return len(lost)

    def held(self, token: str) -> list[Reservation]:
        """What the pop with this token still holds, in the order of the pop, or of the renewals if there were any."""
        with self.changing:
            now = self.now()
            return [_reservation(job, now) for job in self._held_by(token)]

    def wait(self, queues: Sequence[str], *, timeout: float, stopping: Callable[[], bool]) -> None:
        """Return when there is work in these queues, after `timeout` seconds, or soon after `stopping()`."""
        names = [queue_name(queue) for queue in queues]
        deadline = clock.monotonic() + timeout
        with self.changing:
            while not stopping() and (left := deadline - clock.monotonic()) > 0 and not self._has_work(names):
                # Briefly, for a job may fall due and a stop be asked for without any change here.
                self.changing.wait(min(left, 0.01))

    def size(self, queue: str) -> Sizes:
        """How many jobs of the queue wait, are delayed, and are reserved."""
        queue_name(queue)
        with self.changing:
            due = self.shelves.count(queue, State.DELAYED, upto=self.now())
            return Sizes(
                ready=self.shelves.count(queue, State.READY) + due,
                delayed=self.shelves.count(queue, State.DELAYED) - due,
                reserved=self.shelves.count(queue, State.RESERVED),
            )

    def renew(self, reservations: Sequence[Reservation]) -> list[Reservation]:
        """Extend the live leases by `retry_after` from now and return those that are lost."""
        with self.changing:
            now = self.now()
            return [reservation for reservation in reservations if not self._renew(reservation, now)]

    def note_progress(self, reservation: Reservation, progress: Progress) -> bool:
        """Store the latest progress beside the job; false when the reservation is stale."""
        with self.changing:
            job = self.job_of(reservation)
            if job is not None:
                job.progress = progress
            return job is not None

    def _held_by(self, token: str) -> list[Job]:
        # They were shelved in the order they were popped or renewed.
        return [job for job in self.shelves.jobs.values() if job.token == token and job.state is State.RESERVED]

    def _take_in(self, queues: Sequence[str], now: float) -> list[Reclaimed]:
        expired = [
            job for queue in self.open_queues(queues) for job in self.shelves.lane(queue, State.RESERVED, upto=now)
        ]
        reclaimed = []
        for job in expired[:RECLAIMED_AT_ONCE]:
            reclaimed.append(Reclaimed(job.envelope, job.counters.attempts, charged=job.alone))
            job.counters, entry = taken_in(job.counters, alone=job.alone, now=now)
            job.history = history.extended(job.history, entry)
            self.put_back(job, State.DELAYED, now)
        return reclaimed

    def _choose(self, queues: Sequence[str], room: Room, now: float) -> list[Job]:
        taken: list[Job] = []
        used = 0.0
        for queue in self.open_queues(queues):
            due_first = self._due_first.get(queue, False)
            ready = self.shelves.lane(queue, State.READY)
            due = self.shelves.lane(queue, State.DELAYED, upto=now)
            for job in in_turn(ready, due, due_first=due_first):
                expected = room.expected(job.envelope.name, job.counters)
                if not room.fits(expected, taken=len(taken), used=used):
                    return taken
                self._due_first[queue] = not due_first
                taken.append(job)
                used += expected
        return taken

    def take(self, job: Job, token: str) -> Reservation:
        """Reserve one job by itself."""
        now = self.now()
        self._reserve(job, token, now, alone=True)
        return _reservation(job, now)

    def _reserve(self, job: Job, token: str, now: float, *, alone: bool) -> None:
        job.counters = replace(job.counters, attempts=job.counters.attempts + 1)
        job.token, job.alone = token, alone
        self.shelves.put(job, State.RESERVED, now + self.retry_after)

    def _has_work(self, queues: Sequence[str]) -> bool:
        now = self.now()
        due = self._next_due(queues, now)
        is_due = due is not None and due <= now
        return is_due or any(self.shelves.first(queue, State.READY) is not None for queue in self.open_queues(queues))

    def _next_due(self, queues: Sequence[str], now: float) -> float | None:
        lanes = [(queue, state) for queue in self.open_queues(queues) for state in (State.DELAYED, State.RESERVED)]
        dues = [due for lane in lanes if (due := self.shelves.first(*lane)) is not None]
        pauses = self.pauses(now)
        ends = [end for queue in queues if (end := pauses.get(queue)) is not None]
        return min(dues + ends, default=None)

    def _settle(self, settlement: Settlement, now: float, followed: list[Followed]) -> bool:
        reservation = settlement.reservation
        key = type(settlement).__name__, reservation.receipt
        self._forget_settled(now)
        if key in self._settled:
            return True
        job = self.job_of(reservation)
        if job is None:
            return False
        self._settled[key] = now
        match settlement:
            case Ack():
                self.end(job, now)
                followed += self.tell(job.envelope, End.of(settlement))
            case Release(due=due, counters=counters, entry=entry):
                job.counters, job.history = counters, history.extended(reservation.history, entry)
                self.put_back(job, State.DELAYED, instant(due, now))
            case Fail(error=error, counters=counters, entry=entry):
                job.counters = counters
                job.history = history.extended(reservation.history, *([entry] if entry else []))
                self.end(job, now)
                self.failures[job.envelope.id] = Failure(job, storable(error), now, position=next(self.serial))
                followed += self.tell(job.envelope, End.FAILED)
        return True

    def _forget_settled(self, now: float) -> None:
        # The oldest come first; nobody repeats a settlement once its lease is over.
        while self._settled and (oldest := next(iter(self._settled.items())))[1] < now - self.retry_after:
            del self._settled[oldest[0]]

    def _renew(self, reservation: Reservation, now: float) -> bool:
        job = self.job_of(reservation)
        if job is None or job.at <= now:
            return False
        self.shelves.put(job, State.RESERVED, now + self.retry_after)
        return True


def _reservation(job: Job, now: float) -> Reservation:
    return Reservation(
        envelope=job.envelope,
        counters=job.counters,
        receipt=job.receipt,
        now=now,
        pushed_at=job.pushed_at,
        retry_until=job.retry_until,
        history=job.history,
    )
