"""Runs each job at once, where it is dispatched."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

from .. import clock
from ..config import ConnectionSettings
from ..driver import PORTION, Driver, HoldsKeys, RunsBatches, RunsChains, RunsInline
from ..envelope import Popped, Reservation, Room, Settled, Settlement
from ..ids import new_id
from ..pushes import BatchPush, ChainPush, Push, Pushed
from ..stored import Sizes, State, StoredBatch, StoredChain
from . import Surroundings
from .memory import MemoryDriver
from .transitions import End

# How long a batch that has finished can still be looked at, in seconds.
_KEEP_BATCHES = 3_600.0

Ran = tuple[Settled, Exception | None]
"""What came of an attempt: its settlement's answer, and the error for whoever has dispatched the job."""


class SyncDriver(RunsInline, HoldsKeys, RunsChains, RunsBatches):
    """Nothing ever waits here: what is pushed is run by the same call, and the job's error reaches the caller.

    A delay is not waited for, and nothing is tried again: a job that puts itself back ends there, and with it its
    chain. Of jobs that are pushed together each one runs, whatever the others do, as it would with a worker.
    """

    durable: ClassVar[bool] = False

    def __init__(self, run: Callable[[Driver, Reservation], Ran]) -> None:
        self._attempt = run
        self._desk = _Desk(remember_ids=0)

    def push(self, pushes: Sequence[Push]) -> list[Pushed]:
        """Take the jobs in; `run` runs them."""
        return self._desk.push(pushes)

    def push_chain(self, chain: ChainPush) -> Pushed:
        """Take the chain in."""
        return self._desk.push_chain(chain)

    def push_batch(self, batch: BatchPush) -> list[Pushed]:
        """Take the batch in."""
        self._desk.prune_batches(older_than=_KEEP_BATCHES)
        return self._desk.push_batch(batch)

    def run(self, ids: Sequence[str]) -> None:
        """Run the jobs in order, and those that follow from them after them, then raise the first error."""
        errors: list[Exception] = []
        waiting = deque(ids)
        try:
            while waiting:
                reservation = self._desk.reserve(waiting[0])
                if reservation is None:
                    waiting.popleft()
                    continue
                settled, error = self._attempt(self._desk, reservation)
                self._desk.drop(waiting.popleft())
                waiting.extend(one.envelope.id for one in settled.followed if one.holder is None)
                if error is not None:
                    errors.append(error)
        finally:
            # Nothing stays behind, also when something stops the job around these.
            for job_id in waiting:
                self._desk.drop(job_id)
        if len(errors) > 1:
            errors[0].add_note(f"{len(errors) - 1} more of the jobs dispatched together failed; the log tells of each.")
        if errors:
            raise errors[0]

    def holder(self, digest: str) -> str | None:
        """The job that holds the key: it runs, or is about to."""
        return self._desk.holder(digest)

    def give_back_key(self, reservation: Reservation) -> bool:
        """Give back the key of a running job."""
        return self._desk.give_back_key(reservation)

    def chain(self, chain_id: str) -> StoredChain | None:
        """A chain that is being run."""
        return self._desk.chain(chain_id)

    def add_to_batch(self, batch_id: str, members: Sequence[Push], *, by: str | None = None) -> list[Pushed] | None:
        """Take in more members."""
        return self._desk.add_to_batch(batch_id, members, by=by)

    def batch(self, batch_id: str) -> StoredBatch | None:
        """A batch that runs or ran not long ago."""
        return self._desk.batch(batch_id)

    def batches(self, *, before: str | None = None, limit: int = 50) -> list[StoredBatch]:
        """The batches that run or ran not long ago."""
        return self._desk.batches(before=before, limit=limit)

    def cancel_batch(self, batch_id: str) -> bool:
        """Let the members that have not run end without running."""
        return self._desk.cancel_batch(batch_id)

    def prune_batches(self, *, older_than: float, limit: int = PORTION) -> int:
        """Forget batches that have finished."""
        return self._desk.prune_batches(older_than=older_than, limit=limit)

    def pop(self, queues: Sequence[str], token: str, room: Room) -> Popped:
        """Nothing waits."""
        return Popped((), clock.now())

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Nothing was handed out, so all are too late."""
        return Settled(tuple(settlements))

    def recover(self, token: str, keep: Collection[str] = ()) -> int:
        """Nothing is held."""
        return 0

    def held(self, token: str) -> list[Reservation]:
        """Nothing is held."""
        return []

    def wait(self, queues: Sequence[str], *, timeout: float, stopping: Callable[[], bool]) -> None:
        """There will never be work to wait for."""

    def size(self, queue: str) -> Sizes:
        """Nothing waits."""
        return Sizes()


class _Desk(MemoryDriver):
    """Where the jobs lie that are being run, with their keys, chains and batches."""

    def reserve(self, job_id: str) -> Reservation | None:
        """Reserve this one job, due or not; None if it is not here, or not any more."""
        with self.changing:
            job = self.shelves.jobs.get(job_id)
            return None if job is None or job.state is State.RESERVED else self.take(job, new_id())

    def drop(self, job_id: str) -> None:
        """Leave nothing of the job: one that was put back, has failed or was not reached does not come again."""
        with self.changing:
            job, failure = self.shelves.jobs.get(job_id), self.failures.pop(job_id, None)
            if job is not None:
                self.end(job, self.now())
                self.tell(job.envelope, End.REMOVED)
            if failure is not None:
                self.forget_chain(failure.job.envelope)


def create(settings: ConnectionSettings, surroundings: Surroundings) -> SyncDriver:
    """The driver of a connection with ``"driver": "sync"``."""
    return SyncDriver(surroundings.run)
