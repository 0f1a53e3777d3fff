"""What a store promises: its locks, its limits and its counts, alone and beside the jobs of a driver."""

from __future__ import annotations

import pytest

from ... import restarts
from ...driver import Clearable, Inspectable, KeepsLocks, Renewable, StoresFailedJobs
from ...envelope import Ack, After, Settlement
from ...store import Held, Store, Taken, Turn
from .limiting import LimitContract
from .locking import LockContract
from .on_store import THREADS, OnStore, at_once, book, delivery, holder
from .support import Advance, Contract, fail, id_list, pop_one, push, release


class CountContract(OnStore):
    """No addition is lost, and a count ends when it was said to."""

    def test_a_count_grows_until_its_end_and_then_begins_anew(
        self, store: Store, other: Store, advance: Advance
    ) -> None:
        first, second = (one.tally("errors", seconds=self.hold) for one in (store, other))
        looked = other.tally("errors", 0, seconds=self.hold)
        advance(self.hold + 0.01)
        over = store.tally("errors", 0, seconds=self.hold)
        anew = other.tally("errors", 2, seconds=self.hold)

        assert [first.count, second.count, looked.count, over.count, anew.count] == [1, 2, 2, 0, 2]
        assert first.ends == second.ends == looked.ends
        assert anew.ends > first.ends
        assert 0 < looked.left <= second.left <= first.left <= self.hold

    def test_a_count_can_be_ended(self, store: Store, other: Store) -> None:
        store.tally("errors", 5, seconds=self.hold)

        assert other.clear("errors")
        assert not other.clear("errors")
        assert store.tally("errors", 0, seconds=self.hold).count == 0

    def test_no_addition_is_lost(self, store: Store, other: Store) -> None:
        def add(one: Store) -> list[int]:
            return [one.tally("errors", seconds=60).count for _ in range(10)]

        counts = [count for some in at_once(store, other, add) for count in some]

        assert sorted(counts) == list(range(1, THREADS * 10 + 1))


class RestartContract(OnStore):
    """Workers that are asked to make room for new code hear of it, each time."""

    def test_workers_are_asked_to_restart_by_a_mark_that_everybody_sees(self, store: Store, other: Store) -> None:
        marks = [restarts.asked(other)]
        for _ in range(3):
            restarts.ask(store)
            marks.append(restarts.asked(other))

        assert marks[0] == 0
        assert len(set(marks)) == 4
        assert [restarts.is_asked(other, mark) for mark in marks] == [True, True, True, False]

    def test_a_mark_that_has_ended_restarts_nobody_and_the_next_one_does(self, store: Store, other: Store) -> None:
        restarts.ask(store)
        mark = restarts.asked(store)
        store.clear(restarts.KEY)

        assert not restarts.is_asked(other, mark)
        restarts.ask(store)
        assert restarts.is_asked(other, mark)

    def test_a_mark_lasts_longer_than_any_worker(self, store: Store, other: Store) -> None:
        restarts.ask(store)

        assert other.tally(restarts.KEY, 0, seconds=1).left > 365 * 86_400


class StoreContract(LockContract, LimitContract, CountContract, RestartContract):
    """What every store promises."""


class KeepsLocksContract(StoreContract, Contract):
    """The store beside a driver's jobs: locks that live as long as a delivery, and turns of jobs that end."""

    capability = KeepsLocks

    @pytest.fixture
    def store(self, driver: KeepsLocks) -> Store:
        return driver.store

    @pytest.fixture
    def other(self, second: KeepsLocks) -> Store:
        return second.store

    @pytest.fixture
    def advance(self) -> Advance:
        raise NotImplementedError(f"{type(self).__name__} must override the fixture `advance`.")

    def test_a_lock_lives_as_long_as_the_lease_of_its_holder(
        self, driver: KeepsLocks, second: KeepsLocks, advance: Advance
    ) -> None:
        push(driver, 2)
        first, another = delivery(driver), delivery(second)

        taken = [driver.store.acquire("k", first, seconds=0), second.store.acquire("k", another, seconds=0)]
        advance(self.lease + 0.01)

        assert taken[0] == Held()
        assert isinstance(taken[1], Taken)
        assert taken[1].job_id == first.job_id
        assert not driver.store.extend("k", first, seconds=60)
        assert second.store.acquire("k", holder(), seconds=60) == Held()
        assert not driver.store.release("k", first)

    def test_a_lease_that_is_renewed_keeps_the_lock(
        self, driver: KeepsLocks, second: KeepsLocks, advance: Advance
    ) -> None:
        if not isinstance(driver, Renewable):
            pytest.skip("the driver renews no lease")
        push(driver)
        first = delivery(driver)
        driver.store.acquire("k", first, seconds=0)
        for _ in range(3):
            advance(0.6 * self.lease)
            assert first.delivery is not None
            driver.renew([first.delivery])

        assert isinstance(second.store.acquire("k", holder(), seconds=60), Taken)
        assert driver.store.extend("k", first, seconds=0)

    @pytest.mark.parametrize("ending", ["ack", "release", "fail"])
    def test_the_end_of_a_delivery_frees_its_lock(self, driver: KeepsLocks, second: KeepsLocks, ending: str) -> None:
        push(driver)
        first = delivery(driver)
        driver.store.acquire("k", first, seconds=0)
        assert first.delivery is not None
        settlements: dict[str, Settlement] = {
            "ack": Ack(first.delivery),
            "release": release(first.delivery, After(60.0)),
            "fail": fail(first.delivery),
        }

        driver.settle([settlements[ending]])

        assert second.store.acquire("k", holder(), seconds=60) == Held()

    def test_a_delivery_that_is_put_back_has_lost_its_lock(self, driver: KeepsLocks, second: KeepsLocks) -> None:
        push(driver)
        first = delivery(driver, token="a lost reply")
        driver.store.acquire("k", first, seconds=0)

        driver.recover("a lost reply")

        assert second.store.acquire("k", delivery(second), seconds=0) == Held()
        assert not driver.store.release("k", first)

    def test_places_of_a_lock_are_freed_with_their_deliveries(self, driver: KeepsLocks, second: KeepsLocks) -> None:
        push(driver, 3)
        held = [delivery(driver) for _ in range(3)]

        answers = [driver.store.acquire("k", one, places=2, seconds=0) for one in held]
        assert held[1].delivery is not None
        driver.settle([Ack(held[1].delivery)])

        assert answers[:2] == [Held()] * 2
        assert isinstance(answers[2], Taken)
        assert second.store.acquire("k", held[2], places=2, seconds=0) == Held()

    @pytest.mark.parametrize("ending", ["cancel", "clear", "fail"])
    def test_a_job_that_ends_otherwise_gives_its_turn_back_in_the_same_step(
        self, driver: KeepsLocks, second: KeepsLocks, advance: Advance, ending: str
    ) -> None:
        limit = self.limit(1)
        self.wait_for_a_window(advance)
        (job_id,) = push(driver)
        book(driver.store, limit)
        first = book(driver.store, limit, owner=job_id)

        match ending:
            case "cancel":
                if not isinstance(driver, Inspectable):
                    pytest.skip("the driver cancels no job")
                assert second.cancel(job_id)  # type: ignore[attr-defined]  # the same kind of driver
            case "clear":
                if not isinstance(driver, Clearable):
                    pytest.skip("the driver clears no queue")
                assert second.clear("default") == 1  # type: ignore[attr-defined]
            case "fail":
                if not isinstance(driver, StoresFailedJobs):
                    pytest.skip("the driver keeps no failed jobs")
                reservation = pop_one(driver)
                assert id_list([reservation]) == [job_id]
                driver.settle([fail(reservation)])

        next_one = book(second.store, limit)
        assert isinstance(first, Turn)
        assert isinstance(next_one, Turn)
        assert next_one.at == first.at
        assert not driver.store.give_back(job_id)

    def test_a_job_that_is_put_back_keeps_its_turn(self, driver: KeepsLocks, advance: Advance) -> None:
        limit = self.limit(1)
        self.wait_for_a_window(advance)
        (job_id,) = push(driver)
        book(driver.store, limit)
        first = book(driver.store, limit, owner=job_id)

        driver.settle([release(pop_one(driver), After(60.0))])

        assert isinstance(first, Turn)
        again = book(driver.store, limit, owner=job_id)
        assert isinstance(again, Turn)
        assert again.at == first.at
