"""A batch, as the application sees it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .dispatched import Dispatched, Status
from .driver import RunsBatches
from .errors import BatchNotFound
from .job import Job
from .stored import StoredBatch


class Batch:
    """Jobs that are counted together. What it tells is read from the store each time it is asked.

    `add_jobs` stores more members and says how many were stored; `require_room` raises where the caller's own
    transaction keeps the store from being written to.
    """

    def __init__(
        self,
        answer: Dispatched,
        driver: RunsBatches,
        add_jobs: Callable[[str, Iterable[Job]], int],
        require_room: Callable[[], None],
    ) -> None:
        self._answer = answer
        self._driver = driver
        self._add_jobs = add_jobs
        self._require_room = require_room

    @property
    def id(self) -> str:
        """The batch's id."""
        return self._answer.id

    @property
    def status(self) -> Status:
        """What has become of its dispatch, as for a single job."""
        return self._answer.status

    def state(self) -> StoredBatch:
        """How far it is, all read at once.

        Raises `BatchNotFound` if it waits for a commit, was discarded, or has been pruned.
        """
        stored = self._driver.batch(self.id)
        if stored is None:
            raise BatchNotFound(
                f"The batch {self.id} is not stored: its transaction has not been committed, or it was pruned after it "
                "had finished."
            )
        return stored

    @property
    def progress(self) -> float:
        """The share of its members that have ended, from 0 to 1."""
        state = self.state()
        return (state.total - state.pending) / state.total if state.total else 1.0

    @property
    def is_finished(self) -> bool:
        """Whether all members have ended."""
        return self.state().finished_at is not None

    @property
    def is_cancelled(self) -> bool:
        """Whether members that have not started will not run."""
        return self.state().cancelled_at is not None

    def cancel(self) -> bool:
        """Let the members that have not started end without running; false if it was cancelled or had finished.

        At once, and not with a commit. Raises `BatchNotFound` if it waits for a commit itself, and `StoreRefused` on
        SQLite if the current transaction has written to the same file.
        """
        self._require_writable()
        return self._driver.cancel_batch(self.id)

    def add(self, jobs: Iterable[Job]) -> int:
        """Store more members, at once, and say how many. For members and others while the batch runs.

        Raises `InvalidArgument` if it has finished, and else what `cancel` raises.
        """
        self._require_writable()
        return self._add_jobs(self.id, jobs)

    def _require_writable(self) -> None:
        if self.status in (Status.DEFERRED, Status.DISCARDED):
            raise BatchNotFound(
                f"The batch {self.id} is not stored: its transaction has not been committed. Commit it first."
            )
        self._require_room()

    def __repr__(self) -> str:
        """Its id, for logs."""
        return f"<Batch {self.id}>"
