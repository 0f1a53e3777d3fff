"""Batches: every member counted once, however it ends, and every callback pushed once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ...driver import Driver, RunsBatches, StoresFailedJobs
from ...envelope import Ack, After, Key, Reservation, Ties
from ...ids import new_id
from ...pushes import Push, Pushed
from .on_batches import batch, member
from .pruning import PruningContract
from .support import Advance, envelope, fail, pop, pop_one, release, roomy, timeless


class RunsBatchesContract(PruningContract):
    """What `RunsBatches` promises."""

    capability = RunsBatches

    def test_members_are_pushed_in_order_and_counted(self, driver: Driver, batches: RunsBatches) -> None:
        plan = batch(3)

        answers = batches.push_batch(plan)

        stored = self.stored(batches, plan)
        assert [answer.stored for answer in answers] == [True, True, True]
        assert (stored.name, stored.total, stored.is_whole, stored.allow_failures) == ("statements", 3, True, False)
        assert (stored.finished_at, stored.cancelled_at) == (None, None)
        assert self.counts(batches, plan) == (3, 0, 0, 0)
        ids = [pop_one(driver).envelope.id for _ in range(3)]
        assert ids == [push.envelope.id for push in plan.members]

    def test_a_member_is_held_with_its_batch_and_its_end_is_counted(self, driver: Driver, batches: RunsBatches) -> None:
        plan, token = batch(2), new_id()
        batches.push_batch(plan)
        popped = pop(driver, token=token).reservations

        held = driver.held(token)
        driver.settle([Ack(reservation) for reservation in held])

        assert timeless(held) == timeless(popped)
        assert [reservation.envelope for reservation in held] == [plan.members[0].envelope]
        assert self.counts(batches, plan) == (1, 1, 0, 0)

    def test_when_all_are_done_then_and_finally_follow_once(self, driver: Driver, batches: RunsBatches) -> None:
        plan = batch(3)
        batches.push_batch(plan)

        followed = [[one.envelope.name for one in driver.settle([Ack(pop_one(driver))]).followed] for _ in range(3)]

        assert followed == [[], [], ["shop.then", "shop.finally"]]
        assert self.counts(batches, plan) == (0, 3, 0, 0)
        assert self.stored(batches, plan).finished_at is not None
        assert self.stored(batches, plan).callbacks == 2
        assert self.called_back(driver) == ["shop.then", "shop.finally"]
        assert self.stored(batches, plan).callbacks == 0

    def test_members_that_end_together_are_counted_together(self, driver: Driver, batches: RunsBatches) -> None:
        plan, other = batch(20), batch(5)
        batches.push_batch(plan)
        batches.push_batch(other)
        reservations = pop(driver, room=roomy()).reservations

        settled = driver.settle([Ack(one, skipped=place % 4 == 0) for place, one in enumerate(reservations)])

        assert self.counts(batches, plan) == (0, 15, 0, 5)
        assert self.counts(batches, other) == (0, 3, 0, 2)
        assert len(settled.followed) == 4

    def test_a_repeated_settlement_counts_once(self, driver: Driver, batches: RunsBatches) -> None:
        plan = batch(2)
        batches.push_batch(plan)
        done = Ack(pop_one(driver))

        driver.settle([done])
        driver.settle([done])

        assert self.counts(batches, plan) == (1, 1, 0, 0)

    def test_a_stale_settlement_and_a_release_count_nothing(
        self, driver: Driver, batches: RunsBatches, advance: Advance
    ) -> None:
        plan = batch(1)
        batches.push_batch(plan)
        late = pop_one(driver)
        advance(self.lease + 0.01)
        current = pop_one(driver)
        driver.settle([Ack(late)])
        driver.settle([release(current, After(0.0))])

        assert self.counts(batches, plan) == (1, 0, 0, 0)

    def test_the_first_failure_cancels_and_calls_catch_once(self, driver: Driver, batches: RunsBatches) -> None:
        plan = batch(3)
        batches.push_batch(plan)
        for _ in range(2):
            driver.settle([fail(pop_one(driver))])
        before = self.called_back(driver)
        driver.settle([Ack(pop_one(driver), skipped=True)])

        assert before == ["shop.catch"]
        assert self.counts(batches, plan) == (0, 0, 2, 1)
        assert self.stored(batches, plan).cancelled_at is not None
        assert self.called_back(driver) == ["shop.finally"]

    def test_failures_that_are_allowed_cancel_nothing_but_there_is_no_then(
        self, driver: Driver, batches: RunsBatches
    ) -> None:
        plan = batch(2, allow_failures=True)
        batches.push_batch(plan)
        driver.settle([fail(pop_one(driver))])
        driver.settle([Ack(pop_one(driver))])

        assert self.stored(batches, plan).cancelled_at is None
        assert self.counts(batches, plan) == (0, 1, 1, 0)
        assert self.called_back(driver) == ["shop.catch", "shop.finally"]

    def test_a_retried_member_moves_once_from_failed_to_done(self, driver: Driver, batches: RunsBatches) -> None:
        assert isinstance(driver, StoresFailedJobs)
        plan = batch(1, allow_failures=True)
        batches.push_batch(plan)
        driver.settle([fail(pop_one(driver))])
        assert self.called_back(driver) == ["shop.catch", "shop.finally"]

        driver.retry(plan.members[0].envelope.id, again := new_id())
        driver.settle([fail(pop_one(driver))])
        after_second_failure = self.counts(batches, plan)
        driver.retry(again, new_id())
        driver.settle([Ack(pop_one(driver))])

        assert after_second_failure == (0, 0, 1, 0)
        assert self.counts(batches, plan) == (0, 1, 0, 0)
        assert self.called_back(driver) == ["shop.then"]

    def test_what_is_taken_out_or_forgotten_counts_as_skipped(self, driver: Driver, batches: RunsBatches) -> None:
        assert isinstance(driver, StoresFailedJobs)
        plan = batch(4, allow_failures=True)
        batches.push_batch(plan)
        driver.settle([fail(pop_one(driver))])
        driver.settle([fail(pop_one(driver))])
        driver.forget(plan.members[0].envelope.id)
        driver.flush()
        driver.cancel(plan.members[2].envelope.id)  # type: ignore[attr-defined]
        driver.clear("default")  # type: ignore[attr-defined]

        assert self.counts(batches, plan) == (0, 0, 0, 4)
        assert self.stored(batches, plan).finished_at is not None
        assert self.called_back(driver) == ["shop.catch", "shop.then", "shop.finally"]

    def test_an_empty_batch_finishes_at_once(self, driver: Driver, batches: RunsBatches) -> None:
        plan = batch(0)

        assert batches.push_batch(plan) == []
        assert self.stored(batches, plan).finished_at is not None
        assert self.called_back(driver) == ["shop.then", "shop.finally"]

    def test_a_member_whose_key_is_held_counts_as_skipped(self, driver: Driver, batches: RunsBatches) -> None:
        key = Key("k" * 64, "invoice:7")
        driver.push([holder := Push(envelope(queue="other", ties=Ties(key=key)))])
        plan = batch(2, key=key)

        answers = batches.push_batch(plan)
        driver.settle([Ack(pop_one(driver))])

        assert [(answer.stored, answer.holder) for answer in answers] == [(False, holder.envelope.id), (True, None)]
        assert self.counts(batches, plan) == (0, 1, 0, 1)
        assert self.called_back(driver) == ["shop.then", "shop.finally"]

    def test_a_repeated_push_stores_the_batch_once(self, driver: Driver, batches: RunsBatches) -> None:
        plan = batch(2)
        batches.push_batch(plan)
        driver.settle([Ack(pop_one(driver))])

        answers = batches.push_batch(plan)

        assert [answer.stored for answer in answers] == [False, False]
        assert self.counts(batches, plan) == (1, 1, 0, 0)

    def test_members_can_be_added_until_it_has_finished(self, driver: Driver, batches: RunsBatches) -> None:
        plan = batch(1)
        batches.push_batch(plan)
        added = batches.add_to_batch(plan.id, [member(plan.id), member(plan.id)])
        for _ in range(3):
            driver.settle([Ack(pop_one(driver))])

        late = batches.add_to_batch(plan.id, [member(plan.id)])

        assert added is not None
        assert [answer.stored for answer in added] == [True, True]
        assert self.counts(batches, plan) == (0, 3, 0, 0)
        assert late is None
        assert batches.add_to_batch(new_id(), [member(plan.id)]) is None
        assert driver.size("default").ready == 0

    def test_adding_is_repeated_safely(self, batches: RunsBatches) -> None:
        plan = batch(1)
        batches.push_batch(plan)
        more = [member(plan.id)]
        batches.add_to_batch(plan.id, more)
        batches.add_to_batch(plan.id, more)

        assert self.counts(batches, plan) == (2, 0, 0, 0)

    def test_a_member_whose_key_is_held_is_skipped_once_however_often_it_is_added(
        self, driver: Driver, batches: RunsBatches
    ) -> None:
        key = Key("k" * 64, "invoice:7")
        driver.push([holder := Push(envelope(queue="other", ties=Ties(key=key)))])
        plan = batch(1)
        batches.push_batch(plan)
        held = member(plan.id, key=key)

        first = batches.add_to_batch(plan.id, [held])
        again = batches.add_to_batch(plan.id, [held])

        assert first == [Pushed(held.envelope.id, stored=False, holder=holder.envelope.id)]
        assert again is not None
        assert not again[0].stored
        assert self.counts(batches, plan) == (1, 0, 0, 1)

    def test_a_cancelled_batch_finishes_without_then(self, driver: Driver, batches: RunsBatches) -> None:
        plan = batch(2)
        batches.push_batch(plan)

        cancelled = (batches.cancel_batch(plan.id), batches.cancel_batch(plan.id), batches.cancel_batch(new_id()))
        for _ in range(2):
            driver.settle([Ack(pop_one(driver), skipped=True)])

        assert cancelled == (True, False, False)
        assert self.stored(batches, plan).cancelled_at is not None
        assert self.called_back(driver) == ["shop.finally"]
        assert not batches.cancel_batch(plan.id)

    def test_batches_are_paged_newest_first(self, batches: RunsBatches) -> None:
        plans = [batch(1) for _ in range(3)]
        for plan in plans:
            batches.push_batch(plan)

        first = batches.batches(limit=2)
        rest = batches.batches(before=first[-1].id, limit=2)

        assert [stored.id for stored in [*first, *rest]] == [plan.id for plan in reversed(plans)]

    def test_f43_members_that_end_at_once_push_each_callback_once(
        self, driver: Driver, second: Driver, batches: RunsBatches
    ) -> None:
        for _ in range(5):
            plan = batch(16)
            batches.push_batch(plan)
            shares = [(worker, [pop_one(worker) for _ in range(4)]) for worker in (driver, second, driver, second)]

            followed = _settled_at_once(shares)

            assert sorted(followed) == ["shop.finally", "shop.then"]
            assert self.counts(batches, plan) == (0, 16, 0, 0)
            assert self.called_back(driver) == ["shop.then", "shop.finally"]

    def test_a_batch_larger_than_a_portion_is_whole_when_it_is_stored(
        self, driver: Driver, batches: RunsBatches
    ) -> None:
        plan = batch(1_050)

        answers = batches.push_batch(plan)

        assert all(answer.stored for answer in answers)
        assert self.counts(batches, plan) == (1_050, 0, 0, 0)
        assert self.stored(batches, plan).is_whole
        assert driver.size("default").ready == 1_050


def _settled_at_once(shares: Sequence[tuple[Driver, Sequence[Reservation]]]) -> list[str]:
    """Settle each share from a thread of its own, all at the same time; gives the names of what followed."""
    barrier, followed = threading.Barrier(len(shares)), list[str]()

    def settle(worker: Driver, share: Sequence[Reservation]) -> None:
        barrier.wait(timeout=10)
        for reservation in share:
            followed.extend(one.envelope.name for one in worker.settle([Ack(reservation)]).followed)

    with ThreadPoolExecutor(len(shares)) as pool:
        for settling in [pool.submit(settle, *share) for share in shares]:
            settling.result(timeout=60)
    return followed
