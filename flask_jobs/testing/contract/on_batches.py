"""What the contracts of batches share: batches to push, and what is counted of them."""

from __future__ import annotations

import pytest

from ...driver import Driver, RunsBatches
from ...envelope import Ack, Key, Ties
from ...ids import new_id
from ...pushes import BatchPush, Push, Role
from ...stored import StoredBatch
from .support import Contract, envelope, pop

CALLBACKS = {Role.THEN: "shop.then", Role.CATCH: "shop.catch", Role.FINALLY: "shop.finally"}


def member(batch_id: str, *, key: Key | None = None, queue: str = "default") -> Push:
    """One more job of the batch."""
    return Push(envelope(queue=queue, ties=Ties(batch=batch_id, key=key)))


def batch(size: int = 3, *, allow_failures: bool = False, key: Key | None = None) -> BatchPush:
    """A batch with all callbacks, which go to a queue of their own; its first member may hold a unique key."""
    id_ = new_id()
    callbacks = {
        role: Push(envelope(queue="callbacks", name=name, ties=Ties(batch=id_, is_callback=True)))
        for role, name in CALLBACKS.items()
    }
    members = tuple(member(id_, key=None if place else key) for place in range(size))
    return BatchPush(id_, members, "statements", callbacks, allow_failures)


class OnBatches(Contract):
    """The driver by what it does with batches."""

    @pytest.fixture
    def batches(self, driver: Driver) -> RunsBatches:
        """The driver, for its batches."""
        assert isinstance(driver, RunsBatches)
        return driver

    def counts(self, batches: RunsBatches, plan: BatchPush) -> tuple[int, int, int, int]:
        """Pending, done, failed, skipped."""
        stored = self.stored(batches, plan)
        assert stored.total == stored.pending + stored.done + stored.failed + stored.skipped
        return stored.pending, stored.done, stored.failed, stored.skipped

    def stored(self, batches: RunsBatches, plan: BatchPush) -> StoredBatch:
        """The batch as it is stored."""
        stored = batches.batch(plan.id)
        assert stored is not None
        return stored

    def called_back(self, driver: Driver) -> list[str]:
        """The names of the callbacks that have been pushed, which are run here."""
        names = []
        while popped := pop(driver, "callbacks").reservations:
            names.append(popped[0].envelope.name)
            driver.settle([Ack(popped[0])])
        return names
