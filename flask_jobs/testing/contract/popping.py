"""What a pop promises: each job to exactly one worker, never before its time, in an order that starves nobody."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from ...driver import Driver
from ...envelope import Ack, After, At
from ...stored import Sizes
from .support import Advance, Contract, id_list, pop, pop_ids, pop_one, push, release, roomy


class PopContract(Contract):
    """Promise 2, but for leases."""

    def test_an_empty_queue_gives_nothing_and_expects_nothing(self, driver: Driver) -> None:
        popped = pop(driver)

        assert (popped.reservations, popped.next_due, popped.reclaimed) == ((), None, ())
        assert popped.now > 0

    def test_a_job_is_given_to_one_worker(self, driver: Driver, second: Driver) -> None:
        ids = push(driver)

        assert pop_ids(driver, amount=1) == ids
        assert pop_ids(second, amount=1) == []
        assert driver.size("default") == Sizes(ready=0, delayed=0, reserved=1)

    def test_jobs_keep_the_order_of_their_pushes(self, driver: Driver) -> None:
        ids = [push(driver)[0] for _ in range(5)] + push(driver, 5)

        assert pop_ids(driver, amount=10) == ids

    def test_an_earlier_queue_comes_first(self, driver: Driver) -> None:
        low, high = push(driver, 2, queue="low"), push(driver, 2, queue="high")

        assert pop_ids(driver, "high", "low", amount=5) == high + low

    def test_queues_that_were_not_asked_for_are_left_alone(self, driver: Driver) -> None:
        push(driver, queue="other")

        assert pop_ids(driver, amount=1) == []

    @pytest.mark.parametrize("as_instant", [False, True])
    def test_a_delayed_job_waits_for_its_time(self, driver: Driver, advance: Advance, as_instant: bool) -> None:
        now = pop(driver).now
        ids = push(driver, due=At(now + self.delay) if as_instant else After(self.delay))

        early = pop(driver)
        sizes = driver.size("default")
        advance(self.delay + 0.01)

        assert early.reservations == ()
        assert early.next_due == pytest.approx(now + self.delay, abs=self.delay / 2)
        assert sizes == Sizes(ready=0, delayed=1, reserved=0)
        assert driver.size("default") == Sizes(ready=1, delayed=0, reserved=0)
        assert pop_ids(driver, amount=1) == ids

    def test_an_instant_that_has_passed_is_due_at_once(self, driver: Driver) -> None:
        ids = push(driver, due=At(1.0))

        assert pop_ids(driver, amount=1) == ids

    def test_an_empty_pop_names_the_earliest_instant_of_all_its_queues(self, driver: Driver) -> None:
        now = pop(driver).now
        for seconds, queue in ((500.0, "a"), (300.0, "b"), (900.0, "b"), (100.0, "unasked")):
            push(driver, queue=queue, due=At(now + seconds))

        assert pop(driver, "a", "b").next_due == pytest.approx(now + 300.0, abs=0.01)

    def test_an_empty_pop_names_the_end_of_a_lease(self, driver: Driver, second: Driver) -> None:
        push(driver)
        reservation = pop_one(driver)

        assert pop(second).next_due == pytest.approx(reservation.now + self.lease, abs=0.01)

    def test_due_jobs_come_in_the_order_of_their_instants(self, driver: Driver) -> None:
        ids = [push(driver, due=At(instant))[0] for instant in (30.0, 10.0, 20.0)]

        assert pop_ids(driver, amount=3) == [ids[1], ids[2], ids[0]]

    @pytest.mark.parametrize("limit", [1, 4])
    def test_a_burst_of_due_jobs_and_fresh_ones_are_taken_in_turn(self, driver: Driver, limit: int) -> None:
        due = set(push(driver, 20, due=At(10.0)))
        fresh = set(push(driver, 20))

        taken = [id_ for _ in range(8 // limit) for id_ in id_list(pop(driver, room=roomy(limit)).reservations)]

        assert len(due.intersection(taken)) == 4
        assert len(fresh.intersection(taken)) == 4

    def test_the_front_of_a_queue_comes_first_and_the_newest_before_all(self, driver: Driver) -> None:
        last = push(driver, 2) + push(driver, due=At(10.0))
        older = push(driver, 2, front=True)
        newest = push(driver, 2, front=True)

        assert pop_ids(driver, amount=4) == newest + older
        assert set(pop_ids(driver, amount=4)) == set(last)

    def test_a_job_put_back_without_delay_is_popped_again_at_once(self, driver: Driver) -> None:
        ids = push(driver)
        driver.settle([release(pop_one(driver), After(0.0))])

        assert pop_ids(driver, amount=1) == ids

    def test_sizes_tell_the_states_apart(self, driver: Driver) -> None:
        push(driver, 5)
        push(driver, 2, due=After(self.delay))
        push(driver, 7, queue="other")
        pop_one(driver)

        assert driver.size("default") == Sizes(ready=4, delayed=2, reserved=1)
        assert driver.size("nobody") == Sizes()

    def test_many_workers_pop_each_job_exactly_once(self, driver: Driver, second: Driver) -> None:
        ids = push(driver, 500)
        taken: list[str] = []
        errors: list[BaseException] = []

        def work(worker: Driver) -> None:
            try:
                # What others have locked at this instant a pop may not see, and then nothing is what it finds.
                while (reservations := pop(worker, room=roomy(3)).reservations) or worker.size("default").ready:
                    taken.extend(id_list(reservations))
                    assert worker.settle([Ack(reservation) for reservation in reservations]).stale == ()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(worker,)) for worker in (driver, second, driver, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert errors == []
        assert Counter(taken) == Counter(ids)
        assert driver.size("default") == Sizes()
