"""Unique keys, chains and batches in memory: what a job's end is told to, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ... import validation
from ...driver import PORTION, HoldsKeys, RunsBatches, RunsChains
from ...envelope import Envelope, Followed, Ties
from ...pushes import BatchPush, ChainPush, Push, Pushed, Role
from ...stored import StoredBatch, StoredChain
from ...validation import queue_name
from ..transitions import End, callbacks_due, counted, has_failed_before
from .shelves import Job
from .stock import Stock


@dataclass(slots=True)
class _Chain:
    """A chain that has not ended; `job_id` is the link that waits, runs or has failed."""

    plan: ChainPush
    link: int
    job_id: str
    created_at: float
    catch: Push | None

    def shown(self) -> StoredChain:
        return StoredChain(
            id=self.plan.id,
            total=len(self.plan.links),
            link=self.link,
            job_id=self.job_id,
            created_at=self.created_at,
            waiting=tuple(push.envelope for push in self.plan.links[self.link :]),
            catch=None if self.catch is None else self.catch.envelope,
        )


@dataclass(slots=True)
class _Batch:
    """A batch, and the callbacks that have not been pushed."""

    stored: StoredBatch
    callbacks: dict[Role, Push]


class Following(Stock, HoldsKeys, RunsChains, RunsBatches):
    """Keeps chains and batches, and tells them of the ends of jobs."""

    def __init__(self, now: Callable[[], float], *, remember_ids: float) -> None:
        super().__init__(now, remember_ids=remember_ids)
        self._chains: dict[str, _Chain] = {}
        self._batches: dict[str, _Batch] = {}

    def holder(self, digest: str) -> str | None:
        """The id of the job that holds the key, or None."""
        with self.changing:
            return self.held_by(digest, self.now())

    def push_chain(self, chain: ChainPush) -> Pushed:
        """Store the chain and push its first link."""
        for push in _all(chain.links, chain.catch):
            queue_name(push.envelope.queue)
        with self.changing:
            first = chain.links[0]
            answer = self.shelve(first)
            if answer.stored:
                self._chains[chain.id] = _Chain(chain, 1, first.envelope.id, self.now(), chain.catch)
            return answer

    def chain(self, chain_id: str) -> StoredChain | None:
        """The chain, or None if it has ended."""
        with self.changing:
            chain = self._chains.get(chain_id)
            return None if chain is None else chain.shown()

    def push_batch(self, batch: BatchPush) -> list[Pushed]:
        """Store the batch and push its members."""
        for push in _all(batch.members, *batch.callbacks.values()):
            queue_name(push.envelope.queue)
        with self.changing:
            if batch.id in self._batches:
                return [Pushed(push.envelope.id, stored=False) for push in batch.members]
            new = StoredBatch(batch.id, batch.name, 0, 0, 0, 0, 0, batch.allow_failures, self.now())
            self._batches[batch.id] = _Batch(new, dict(batch.callbacks))
            answers = self._add(batch.id, batch.members)
            self._call_back(batch.id)
            return answers

    def add_to_batch(self, batch_id: str, members: Sequence[Push], *, by: str | None = None) -> list[Pushed] | None:
        """Push more members, unless the batch has finished."""
        for push in members:
            queue_name(push.envelope.queue)
        with self.changing:
            batch = self._batches.get(batch_id)
            if batch is None or batch.stored.finished_at is not None:
                return None
            return self._add(batch_id, members)

    def batch(self, batch_id: str) -> StoredBatch | None:
        """The batch, or None."""
        with self.changing:
            batch = self._batches.get(batch_id)
            return None if batch is None else batch.stored

    def batches(self, *, before: str | None = None, limit: int = 50) -> list[StoredBatch]:
        """A page of batches by id, newest first."""
        with self.changing:
            ids = sorted((id_ for id_ in self._batches if before is None or id_ < before), reverse=True)
            return [self._batches[id_].stored for id_ in ids[:limit]]

    def cancel_batch(self, batch_id: str) -> bool:
        """Let its members end without running from now on."""
        with self.changing:
            batch = self._batches.get(batch_id)
            if batch is None or batch.stored.cancelled_at is not None or batch.stored.finished_at is not None:
                return False
            batch.stored = replace(batch.stored, cancelled_at=self.now())
            return True

    def prune_batches(self, *, older_than: float, limit: int = PORTION) -> int:
        """Delete batches that finished long enough ago and have neither callback nor failed member left."""
        age = validation.seconds(older_than, what="older_than")
        with self.changing:
            latest = self.now() - age
            old = [id_ for id_, batch in self._batches.items() if _is_over(batch.stored, latest)][: min(limit, PORTION)]
            for id_ in old:
                del self._batches[id_]
            return len(old)

    def tell(self, envelope: Envelope, end: End) -> list[Followed]:
        """Let chain and batch know that the job has ended; gives what was pushed or dropped for it."""
        ties = envelope.ties
        if ties is None:
            return []
        followed: list[Followed] = []
        if ties.chain is not None and not ties.is_callback:
            followed += self._tell_chain(ties.chain, ties.link, end)
        if ties.batch is not None:
            followed += self._tell_batch(envelope, ties.batch, ties, end)
        return followed

    def follow_retry(self, job: Job) -> None:
        """Let the chain know which job has taken the place of its failed link."""
        ties = job.envelope.ties
        if ties is not None and ties.chain in self._chains and not ties.is_callback:
            self._chains[ties.chain].job_id = job.envelope.id

    def forget_chain(self, envelope: Envelope) -> None:
        """Forget the chain whose failed link this is, for it will not be retried."""
        ties = envelope.ties
        chain = None if ties is None or ties.chain is None else self._chains.get(ties.chain)
        if chain is not None and chain.job_id == envelope.id:
            del self._chains[chain.plan.id]

    def _tell_chain(self, chain_id: str, link: int, end: End) -> Iterator[Followed]:
        chain = self._chains.get(chain_id)
        if chain is None or chain.link != link:
            return
        match end:
            case End.REMOVED:
                del self._chains[chain_id]
            case End.FAILED:
                catch, chain.catch = chain.catch, None
                if catch is not None:
                    yield self._follow(catch)
            case End.DONE | End.SKIPPED if link == len(chain.plan.links):
                del self._chains[chain_id]
            case End.DONE | End.SKIPPED:
                following = self._follow(chain.plan.links[link])
                chain.link, chain.job_id = link + 1, following.envelope.id
                if following.holder is not None:
                    del self._chains[chain_id]
                yield following

    def _tell_batch(self, envelope: Envelope, batch_id: str, ties: Ties, end: End) -> list[Followed]:
        batch = self._batches.get(batch_id)
        if batch is None:
            return []
        if ties.is_callback:
            # A callback that has failed may be retried, and must still find its batch.
            if end is not End.FAILED:
                batch.stored = replace(batch.stored, callbacks=batch.stored.callbacks - 1)
            return []
        batch.stored = counted(batch.stored, end, again=has_failed_before(envelope), now=self.now())
        return self._call_back(batch_id)

    def tell_forgotten(self, envelope: Envelope) -> None:
        """Let chain and batch know that a failed job will not be retried."""
        ties = envelope.ties
        if ties is None:
            return
        if ties.batch in self._batches and not ties.is_callback:
            batch = self._batches[ties.batch]
            batch.stored = counted(batch.stored, End.REMOVED, again=True, now=self.now())
            self._call_back(ties.batch)
        else:
            self.tell(envelope, End.REMOVED)

    def _add(self, batch_id: str, members: Sequence[Push]) -> list[Pushed]:
        answers = [self.shelve(push) for push in members]
        stored = sum(answer.stored for answer in answers)
        held = sum(answer.holder is not None for answer in answers)
        # Used up, so that each is counted once.
        self.ended |= {answer.id: self.now() + self.remember_ids for answer in answers if answer.holder is not None}
        batch = self._batches[batch_id]
        batch.stored = replace(
            batch.stored,
            total=batch.stored.total + stored + held,
            pending=batch.stored.pending + stored,
            skipped=batch.stored.skipped + held,
        )
        return answers

    def _call_back(self, batch_id: str) -> list[Followed]:
        batch = self._batches[batch_id]
        due = callbacks_due(batch.stored)
        if Role.FINALLY in due and batch.stored.finished_at is None:
            batch.stored = replace(batch.stored, finished_at=self.now())
        pushes = [batch.callbacks.pop(role) for role in due if role in batch.callbacks]
        followed = [self._follow(push) for push in pushes]
        living = sum(one.holder is None for one in followed)
        batch.stored = replace(batch.stored, callbacks=batch.stored.callbacks + living)
        return followed

    def _follow(self, push: Push) -> Followed:
        return Followed(push.envelope, self.shelve(push).holder)


def _is_over(batch: StoredBatch, latest: float) -> bool:
    has_finished = batch.finished_at is not None and batch.finished_at <= latest
    return has_finished and not batch.callbacks and not batch.failed


def _all(pushes: Sequence[Push], *others: Push | None) -> Iterator[Push]:
    yield from pushes
    yield from (push for push in others if push is not None)
