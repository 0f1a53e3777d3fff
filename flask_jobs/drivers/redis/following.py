"""Unique keys, chains and batches in Redis."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ...driver import PORTION, HoldsKeys, RunsBatches, RunsChains
from ...envelope import Reservation
from ...pushes import BatchPush, ChainPush, Push, Pushed, Role
from ...stored import StoredBatch, StoredChain
from ...validation import queue_name, seconds
from .arguments import packed
from .client import Server
from .keys import Keys, member
from .pushing import Answers, push_all, pushed_as
from .scripts import Argument, Scripts
from .values import decoded, stored_batch, stored_chain


class RedisFollowing(HoldsKeys, RunsChains, RunsBatches):
    """The capabilities to hold keys, run chains and count batches."""

    _server: Server
    _scripts: Scripts
    _keys: Keys

    def holder(self, digest: str) -> str | None:
        """The id of the job that holds the key, or None."""
        holder = self._scripts.run("holder", digest)
        return None if holder is None else decoded(holder)

    def give_back_key(self, reservation: Reservation) -> bool:
        """Give back the key that a running job still holds, in one script."""
        job = reservation.envelope
        return bool(self._scripts.run("give_back_key", job.queue, member(reservation.receipt, job.id), job.id))

    def push_chain(self, chain: ChainPush) -> Pushed:
        """Store the chain and push its first link, in one script."""
        for push in (*chain.links, *([chain.catch] if chain.catch else [])):
            queue_name(push.envelope.queue)
        links = [packed(link) for link in chain.links]
        answer = self._scripts.run("push_chain", chain.id, packed(chain.catch), len(links), *links)
        return pushed_as(chain.links[0], answer)

    def chain(self, chain_id: str) -> StoredChain | None:
        """The chain, or None if it has ended."""
        found = self._server.run("HGETALL", self._keys.named(f"chain:{chain_id}"))
        return stored_chain(chain_id, dict(zip(found[::2], found[1::2], strict=True)))

    def push_batch(self, batch: BatchPush) -> list[Pushed]:
        """Store the batch and push its members, in portions. One that was cut short is completed by a repetition."""
        for push in batch.callbacks.values():
            queue_name(push.envelope.queue)
        callbacks = [packed(batch.callbacks.get(role)) for role in (Role.THEN, Role.CATCH, Role.FINALLY)]
        head = [batch.id, batch.name, "" if not batch.allow_failures else "1", *callbacks]
        return push_all(batch.members, partial(self._send_members, "push_batch", head, batch.id)) or []

    def add_to_batch(self, batch_id: str, members: Sequence[Push], *, by: str | None = None) -> list[Pushed] | None:
        """Push more members, unless the batch has finished. It is not whole before the last portion is stored.

        If that never comes, it waits until the job that adds them has ended, at most for the time of a lease.
        """
        # A push by nobody is known by its first member when it is repeated, and is not to end with that one.
        opener = by or f"with:{members[0].envelope.id if members else ''}"
        return push_all(members, partial(self._send_members, "add_to_batch", [batch_id], opener))

    def batch(self, batch_id: str) -> StoredBatch | None:
        """The batch, or None."""
        return next(iter(self._look_at([batch_id])), None)

    def batches(self, *, before: str | None = None, limit: int = 50) -> list[StoredBatch]:
        """A page of batches by id, newest first. Those whose data somebody else has deleted are left out."""
        page: list[StoredBatch] = []
        end = "+" if before is None else f"({before}"
        while len(page) < limit and (ids := self._ids_of_batches(end, min(limit - len(page), PORTION))):
            page += self._look_at(ids)
            end = f"({ids[-1]}"
        return page

    def cancel_batch(self, batch_id: str) -> bool:
        """Let its members end without running from now on. One that is not whole waits for no more members."""
        return bool(self._scripts.run("cancel_batch", batch_id))

    def prune_batches(self, *, older_than: float, limit: int = PORTION) -> int:
        """Delete batches that finished long enough ago and have neither callback nor failed member left."""
        age = seconds(older_than, what="older_than")
        return int(self._scripts.run("prune_batches", repr(age), min(limit, PORTION)))

    def _send_members(
        self, script: str, head: Sequence[Argument], opener: str, portion: list[Argument], is_last: bool
    ) -> Answers | None:
        """`opener` names the push that holds the batch open from its first portion to its last."""
        answers: Answers | None = self._scripts.run(script, *head, opener, "1" if is_last else "", *portion)
        return answers

    def _ids_of_batches(self, end: str, limit: int) -> list[str]:
        found = self._server.run("ZREVRANGEBYLEX", self._keys.named("batches"), end, "-", "LIMIT", 0, limit)
        return [decoded(batch_id) for batch_id in found]

    def _look_at(self, ids: Sequence[str]) -> list[StoredBatch]:
        found = self._seen(ids)
        opened = [batch.id for batch in found if not batch.is_whole]
        # Whoever looks lets those go on whose last members do not come any more.
        if not any(self._scripts.run("close_batch", batch_id) for batch_id in opened):
            return found
        return self._seen(ids)

    def _seen(self, ids: Sequence[str]) -> list[StoredBatch]:
        seen = zip(ids, self._scripts.run("batches", len(ids), *ids), strict=True)
        return [batch for batch_id, state in seen if (batch := stored_batch(batch_id, state)) is not None]
