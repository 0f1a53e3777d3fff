"""Which batches are kept, and for how long."""

from __future__ import annotations

from ...driver import Driver, RunsBatches, StoresFailedJobs
from ...envelope import Ack
from ...ids import new_id
from ...pushes import BatchPush
from .on_batches import OnBatches, batch
from .support import Advance, fail, pop_one


class PruningContract(OnBatches):
    """Only what has finished goes, and only when nobody will ask for it."""

    def test_pruning_keeps_what_runs_and_what_a_callback_will_look_for(
        self, driver: Driver, batches: RunsBatches, advance: Advance
    ) -> None:
        over, running, waiting = batch(1), batch(2), batch(1)
        batches.push_batch(over)
        driver.settle([Ack(pop_one(driver))])
        self.called_back(driver)
        batches.push_batch(waiting)
        driver.settle([Ack(pop_one(driver))])
        batches.push_batch(running)

        too_young = batches.prune_batches(older_than=self.delay)
        pruned = batches.prune_batches(older_than=0)

        assert (too_young, pruned) == (0, 1)
        assert batches.batch(over.id) is None
        assert {stored.id for stored in batches.batches()} == {running.id, waiting.id}
        self.called_back(driver)
        assert batches.prune_batches(older_than=0) == 1

    def test_pruning_is_bounded(self, batches: RunsBatches) -> None:
        for _ in range(3):
            batches.push_batch(BatchPush(new_id(), ()))

        assert [batches.prune_batches(older_than=0, limit=2) for _ in range(3)] == [2, 1, 0]

    def test_a_failed_callback_keeps_its_batch_until_it_is_retried_or_forgotten(
        self, driver: Driver, batches: RunsBatches
    ) -> None:
        assert isinstance(driver, StoresFailedJobs)
        plan = batch(0)
        batches.push_batch(plan)
        driver.settle([fail(one := pop_one(driver, "callbacks")), Ack(pop_one(driver, "callbacks"))])

        kept = batches.prune_batches(older_than=0)
        driver.retry(one.envelope.id, new_id())
        self.called_back(driver)

        assert kept == 0
        assert batches.prune_batches(older_than=0) == 1

    def test_a_batch_is_kept_while_a_failed_member_may_be_retried(self, driver: Driver, batches: RunsBatches) -> None:
        assert isinstance(driver, StoresFailedJobs)
        plan = batch(1)
        batches.push_batch(plan)
        driver.settle([fail(failed := pop_one(driver))])
        self.called_back(driver)

        kept = batches.prune_batches(older_than=0)
        driver.retry(failed.envelope.id, new_id())
        kept_for_the_retry = batches.prune_batches(older_than=0)
        driver.settle([Ack(pop_one(driver))])

        assert (kept, kept_for_the_retry) == (0, 0)
        assert self.counts(batches, plan) == (0, 1, 0, 0)
        assert batches.prune_batches(older_than=0) == 1

    def test_a_batch_is_kept_no_longer_than_its_failed_members(self, driver: Driver, batches: RunsBatches) -> None:
        assert isinstance(driver, StoresFailedJobs)
        plan = batch(2, allow_failures=True)
        batches.push_batch(plan)
        driver.settle([fail(failed := pop_one(driver))])
        driver.settle([fail(pop_one(driver))])
        self.called_back(driver)

        driver.forget(failed.envelope.id)
        kept = batches.prune_batches(older_than=0)
        driver.flush()
        self.called_back(driver)

        assert kept == 0
        assert batches.prune_batches(older_than=0) == 1
