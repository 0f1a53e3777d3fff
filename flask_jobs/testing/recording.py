"""The memory driver of the fake: what it stores, it tells of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..config import ConnectionSettings
from ..drivers.memory import MemoryDriver
from ..envelope import Settled, Settlement
from ..pushes import BatchPush, ChainPush, Package, Push, Pushed


class RecordingDriver(MemoryDriver):
    """Keeps jobs in memory, and tells of all that is newly stored."""

    def __init__(
        self, settings: ConnectionSettings, now: Callable[[], float], record: Callable[[str, Package], None]
    ) -> None:
        super().__init__(now=now, retry_after=settings.retry_after, remember_ids=settings.remember_ids)
        self._connection = settings.name
        self._record = record

    def push(self, pushes: Sequence[Push]) -> list[Pushed]:
        """Store the jobs and record those that are new."""
        answers = super().push(pushes)
        self._record_stored(pushes, answers)
        return answers

    def push_chain(self, chain: ChainPush) -> Pushed:
        """Store the chain and record it, and its first link as a job."""
        answer = super().push_chain(chain)
        if answer.stored:
            self._record(self._connection, chain)
            self._record_stored(chain.links[:1], [answer])
        return answer

    def push_batch(self, batch: BatchPush) -> list[Pushed]:
        """Store the batch and record it, and its members as jobs."""
        is_new = self.batch(batch.id) is None
        answers = super().push_batch(batch)
        if is_new:
            self._record(self._connection, batch)
        self._record_stored(batch.members, answers)
        return answers

    def add_to_batch(self, batch_id: str, members: Sequence[Push], *, by: str | None = None) -> list[Pushed] | None:
        """Store more members and record them as jobs."""
        answers = super().add_to_batch(batch_id, members, by=by)
        self._record_stored(members, answers or ())
        return answers

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Settle, and record the links and callbacks that follow as jobs."""
        settled = super().settle(settlements)
        for one in settled.followed:
            if one.holder is None:
                self._record(self._connection, Push(one.envelope))
        return settled

    def _record_stored(self, pushes: Sequence[Push], answers: Sequence[Pushed]) -> None:
        for push, answer in zip(pushes, answers, strict=False):
            if answer.stored:
                self._record(self._connection, push)
