"""Unique keys, chains and batches, as the port offers them."""

from __future__ import annotations

from collections.abc import Sequence

from ...driver import PORTION, HoldsKeys, RunsBatches, RunsChains
from ...envelope import Reservation
from ...pushes import BatchPush, ChainPush, Push, Pushed, pushes_in
from ...stored import StoredBatch, StoredChain
from ...validation import seconds
from .access import Access
from .following import Following, repeated
from .keys import Keys
from .pushing import check_names
from .retrying import repeated_if_overtaken
from .settling import Settling


class Packages(Access, HoldsKeys, RunsChains, RunsBatches):
    """Stores chains and batches, each in one transaction, and tells of them and of unique keys."""

    keys: Keys
    following: Following
    settling: Settling

    def holder(self, digest: str) -> str | None:
        """The id of the job that holds the key, or None."""
        if not self.has_tables():
            return None
        with self.reading() as transaction:
            return self.keys.holder(transaction, digest)

    @repeated_if_overtaken
    def give_back_key(self, reservation: Reservation) -> bool:
        """Give back the key that a running job still holds; false if the delivery is stale."""
        with self.writing() as transaction:
            return self.settling.give_back_key(transaction, reservation)

    @repeated_if_overtaken
    def push_chain(self, chain: ChainPush) -> Pushed:
        """Store the chain and push its first link, in one transaction."""
        check_names(pushes_in(chain))
        with self.writing() as transaction:
            return self.following.chains.push(transaction, chain)

    def chain(self, chain_id: str) -> StoredChain | None:
        """The chain, or None if it has ended."""
        if not self.has_tables():
            return None
        with self.reading() as transaction:
            return self.following.chains.find(transaction, chain_id)

    @repeated_if_overtaken
    def push_batch(self, batch: BatchPush) -> list[Pushed]:
        """Store the batch and push its members, in one transaction."""
        check_names(pushes_in(batch))
        with self.writing() as transaction:
            answers = self.following.batches.push(transaction, batch)
        return repeated(batch.members) if answers is None else answers

    @repeated_if_overtaken
    def add_to_batch(self, batch_id: str, members: Sequence[Push], *, by: str | None = None) -> list[Pushed] | None:
        """Push more members, in one transaction; None if there is no such batch or it has finished."""
        check_names(members)
        try:
            with self.writing() as transaction:
                answers = self.following.batches.add(transaction, batch_id, members)
                if answers is None:
                    raise _BatchIsOver
                return answers
        except _BatchIsOver:
            return None

    def batch(self, batch_id: str) -> StoredBatch | None:
        """The batch, or None."""
        if not self.has_tables():
            return None
        with self.reading() as transaction:
            return self.following.batches.find(transaction, batch_id)

    def batches(self, *, before: str | None = None, limit: int = 50) -> list[StoredBatch]:
        """A page of batches by id, newest first; `before` is the id of the last one of the page before."""
        with self.reading() as transaction:
            return self.following.batches.page(transaction, before, limit)

    @repeated_if_overtaken
    def cancel_batch(self, batch_id: str) -> bool:
        """Let its members end without running from now on; false if it is unknown, cancelled or finished."""
        with self.writing() as transaction:
            return self.following.batches.cancel(transaction, batch_id)

    @repeated_if_overtaken
    def prune_batches(self, *, older_than: float, limit: int = PORTION) -> int:
        """Delete up to `limit` batches that finished long ago and have neither callback nor failed member left."""
        age = seconds(older_than, what="older_than")
        with self.writing() as transaction:
            return self.following.batches.prune(transaction, age, min(limit, PORTION))


class _BatchIsOver(Exception):
    """Gives up the transaction in which members were stored."""
