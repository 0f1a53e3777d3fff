"""The driver port: where envelopes wait between dispatch and a worker.

A driver moves envelopes and answers for atomicity. It never runs a job, never decides whether to retry and
never reads a body. Time is the store's own clock, unless a connection asks for the local one.

What a driver can do beyond the queue itself it claims by inheriting a capability below. The contract suite
(`flask_jobs.testing.contract`) has a test class for each; a driver that passes it can be trusted with jobs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar

from .envelope import Exchange, Hook, Popped, Progress, Reservation, Room, Settled, Settlement
from .pushes import BatchPush, ChainPush, Package, Push, Pushed
from .store import Store
from .stored import FailedJob, Sizes, State, StoredBatch, StoredChain, StoredJob

if TYPE_CHECKING:
    import sqlalchemy as sa

PORTION = 1_000
"""How many jobs one atomic step touches at most: in `push`, and in the steps for operators whatever their `limit`."""


class Driver(ABC):
    """Stores envelopes, hands out reservations, settles them. Safe to call from several threads."""

    runs_inline: ClassVar[bool] = False
    """Whether no worker is needed, for what is pushed is run at once (see `RunsInline`)."""

    durable: ClassVar[bool] = True
    """Whether what is stored outlives the process, so that it must be signed."""

    @abstractmethod
    def push(self, pushes: Sequence[Push]) -> list[Pushed]:
        """Store the jobs, each once by its id, and return when they are stored.

        Pushed in portions of `PORTION`, each all or nothing (on SQL one transaction holds them all). An id that
        was used within the connection's `remember_ids` is not stored again, also when that job has ended.
        """

    @abstractmethod
    def pop(self, queues: Sequence[str], token: str, room: Room) -> Popped:
        """Reserve what is due, by queue priority, in one atomic step. Looks once, never waits.

        The caller chooses `token`, anew for each pop, so that it can `recover` what a lost reply reserved.
        Expired leases are taken in first, in bounded portions: a job that was popped alone is charged its
        attempt, jobs popped together are not, but count an interruption and are only popped alone from then on.
        """

    @abstractmethod
    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Settle deliveries, each whole or not at all, with what follows from it, and say which came too late.

        Repeating a settlement that was applied reports it as applied, and nothing follows from it again.
        """

    def exchange(self, settlements: Sequence[Settlement], queues: Sequence[str], token: str, room: Room) -> Exchange:
        """Settle, then pop; in one round trip or one transaction where the store can."""
        settled = self.settle(settlements)
        return Exchange(settled, self.pop(queues, token, room))

    @abstractmethod
    def recover(self, token: str, keep: Collection[str] = ()) -> int:
        """Put back, uncharged and at the head of their queues, what the pop with this token still holds.

        Jobs whose ids are in `keep` stay reserved. Returns how many went back.
        """

    @abstractmethod
    def held(self, token: str) -> list[Reservation]:
        """What the pop with this token still holds, in the order of the pop, or of the renewals if there were any.

        Each is the reservation that the pop gave, with the store's present as its `now`: also when its lease has run
        out, as long as nobody has taken the job in. Changes nothing.
        """

    @abstractmethod
    def wait(self, queues: Sequence[str], *, timeout: float, stopping: Callable[[], bool]) -> None:
        """Return when there may be work in these queues, after `timeout` seconds, or soon after `stopping()`."""

    @abstractmethod
    def size(self, queue: str) -> Sizes:
        """How many jobs of the queue wait, are delayed, and are reserved."""

    def prepare(self) -> None:
        """Make the store ready for a worker or an operator: tables, modes, checks. Safe to repeat."""

    def close(self) -> None:
        """Let go of what the driver opened itself. It opens again when it is used again."""


class Renewable(Driver):
    """Keeps the lease of a long job alive."""

    retry_after: float
    """Seconds that a lease lasts from pop or renewal."""

    @abstractmethod
    def renew(self, reservations: Sequence[Reservation]) -> list[Reservation]:
        """Extend the live leases by `retry_after` from now and return those that are lost. Revives none.

        The leases end in the order in which they are named here.
        """


class RunsInline(Driver):
    """Has no worker: what was pushed is run by whoever pushed it."""

    runs_inline: ClassVar[bool] = True

    @abstractmethod
    def run(self, ids: Sequence[str]) -> None:
        """Run those of these jobs that are here, and what follows from them, then raise the first error of a job."""


class HoldsKeys(Driver):
    """Stores no job whose unique key another one holds.

    A key is taken by the push that stores its job and given back by whatever ends it, in the same step. A push that
    finds it held stores nothing and names the holder.
    """

    @abstractmethod
    def holder(self, digest: str) -> str | None:
        """The id of the job that holds the key with this digest, or None."""

    @abstractmethod
    def give_back_key(self, reservation: Reservation) -> bool:
        """Give back the key that a running job still holds; false if the delivery is stale. It is not taken again."""


class RunsChains(Driver):
    """Keeps the links of a chain and pushes each in the step that ends the one before it."""

    @abstractmethod
    def push_chain(self, chain: ChainPush) -> Pushed:
        """Store the chain and push its first link, in one step. Nothing is stored if that link is not."""

    @abstractmethod
    def chain(self, chain_id: str) -> StoredChain | None:
        """The chain, or None if it has ended."""


class RunsBatches(Driver):
    """Counts the members of a batch as they end, each once, and pushes its callbacks."""

    @abstractmethod
    def push_batch(self, batch: BatchPush) -> list[Pushed]:
        """Store the batch and push its members, in order; a repeated id of the batch stores nothing.

        A member whose unique key is held counts as skipped. Where members are pushed in portions, no callback runs
        before the last of them is stored.
        """

    @abstractmethod
    def add_to_batch(self, batch_id: str, members: Sequence[Push], *, by: str | None = None) -> list[Pushed] | None:
        """Push more members; None if there is no such batch or it has finished.

        Where members are pushed in portions, the batch does not finish in between. `by` is the running job that adds
        them, if one does: should it end, or its worker, before the last portion, the batch waits for that no longer.
        """

    @abstractmethod
    def batch(self, batch_id: str) -> StoredBatch | None:
        """The batch, or None."""

    @abstractmethod
    def batches(self, *, before: str | None = None, limit: int = 50) -> list[StoredBatch]:
        """A page of batches by id, newest first; `before` is the id of the last one of the page before."""

    @abstractmethod
    def cancel_batch(self, batch_id: str) -> bool:
        """Let its members end without running from now on; false if it is unknown, cancelled or finished."""

    @abstractmethod
    def prune_batches(self, *, older_than: float, limit: int = PORTION) -> int:
        """Delete up to `limit` batches that finished at least `older_than` seconds ago and that nobody will ask for.

        Kept is what has a callback left, or a failed member that has not been retried with success or forgotten.
        """


class TracksProgress(Driver):
    """Keeps what a running job says of its progress."""

    @abstractmethod
    def note_progress(self, reservation: Reservation, progress: Progress) -> bool:
        """Store the latest progress beside the job; false when the reservation is stale."""


class Inspectable(Driver):
    """Shows what is stored, and takes single jobs out."""

    @abstractmethod
    def queues(self) -> list[str]:
        """The names of all queues that hold a job or are paused, sorted."""

    @abstractmethod
    def jobs(
        self, queue: str, *, state: State | None = None, after: str | None = None, limit: int = 50
    ) -> list[StoredJob]:
        """A page of a queue's jobs by id; `after` is the last id of the page before."""

    @abstractmethod
    def find(self, job_id: str) -> StoredJob | None:
        """The stored job with this id, wherever it waits, or None."""

    @abstractmethod
    def cancel(self, job_id: str) -> bool:
        """Remove a waiting job, and say whether it was there. A reserved one is not touched."""


class Clearable(Driver):
    """Empties queues."""

    @abstractmethod
    def clear(self, queue: str, *, limit: int = PORTION) -> int:
        """Remove up to `limit` waiting jobs, never a reserved one; returns how many. 0 means empty."""


class Pausable(Driver):
    """Holds queues back. A paused queue takes pushes, gives nothing out and wakes nobody."""

    @abstractmethod
    def pause(self, queue: str, *, seconds: float | None = None) -> None:
        """Give out nothing from the queue, for so many seconds or until `resume`."""

    @abstractmethod
    def resume(self, queue: str) -> bool:
        """Give out jobs again; says whether the queue was paused."""

    @abstractmethod
    def paused(self) -> Mapping[str, float | None]:
        """The paused queues, each with the instant its pause ends by itself, or None."""


class StoresFailedJobs(Driver):
    """Keeps failed jobs until they are retried or forgotten."""

    @abstractmethod
    def failed(
        self, *, queue: str | None = None, name: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[FailedJob]:
        """A page of failed jobs, newest first; `before` is the `position` of the last one of the page before."""

    @abstractmethod
    def find_failed(self, job_id: str) -> FailedJob | None:
        """The failed job with this id, or None."""

    @abstractmethod
    def count_failed(self, *, queue: str | None = None, name: str | None = None) -> int:
        """How many failed jobs are kept."""

    @abstractmethod
    def retry(self, job_id: str, new_id: str) -> bool:
        """Put the failed job back under `new_id`, attempts and other counters at 0, in one step.

        Its body stays as it is, its deadline starts anew with the span it had at dispatch, and the new job names
        the old one, keeps its chain and batch, and takes its unique key again. False if there is no such failed job.
        Raises `KeyHeld` if another job holds its key by now.
        """

    @abstractmethod
    def retry_many(
        self,
        new_id: Callable[[], str],
        *,
        upto: int,
        queue: str | None = None,
        name: str | None = None,
        limit: int = PORTION,
    ) -> list[tuple[str, str]]:
        """Retry the oldest failed jobs with a `position` of at most `upto`, up to `limit` of them, in one step.

        Returns old and new ids; an empty list means that none is left but those whose unique key is held.
        """

    @abstractmethod
    def newest_failed(self) -> int:
        """The `position` of the newest failed job, 0 if there is none: where a retry of all begins to end."""

    @abstractmethod
    def forget(self, job_id: str) -> bool:
        """Delete the failed job; says whether it was there."""

    @abstractmethod
    def flush(self, *, older_than: float | None = None, queue: str | None = None, limit: int = PORTION) -> int:
        """Delete up to `limit` failed jobs, those that failed at least `older_than` seconds ago; returns how many."""

    @abstractmethod
    def note_hook(self, job_id: str, hook: Hook) -> None:
        """Record what became of the job's `failed()` method."""


class Transactional(Driver):
    """Can store jobs within a transaction of the application."""

    has_one_writer: bool = False
    """Whether one transaction writes at a time, so that the driver takes no step of its own beside one that has."""

    @abstractmethod
    def shares(self, engine: sa.Engine) -> bool:
        """Whether jobs can be pushed through a connection of this engine."""

    @abstractmethod
    def push_within(self, connection: sa.Connection, packages: Sequence[Package]) -> list[Pushed]:
        """Store the jobs through the app's own connection: visible with its commit, or never.

        One answer for each job: of a chain for its first link, of a batch for each member.
        """


class KeepsLocks(Driver):
    """Has a store for locks, limits and counts beside its jobs."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The store. A lock that is held by a delivery of this driver lives exactly as long as its lease.

        What a job has booked of limits is given back in the step that cancels, clears or fails it.
        """


class KeepsTables(Driver):
    """Keeps jobs in tables that `prepare` makes."""

    @abstractmethod
    def create_sql(self) -> str:
        """The statements that make the tables, for a look or for the hands of a database administrator."""


ContextFactory = Callable[[], AbstractContextManager[object]]
