"""What one pop may take at once: no more than fits, and never a job of unknown length beside another."""

from __future__ import annotations

from ...driver import Driver
from ...envelope import After, Room
from .support import Contract, id_list, pop, pop_one, push, release, roomy

QUICK, SLOW, UNKNOWN = "shop.quick", "shop.slow", "shop.unknown"
ROOM = Room(limit=10, box=0.02, means={QUICK: 0.004, SLOW: 3.0})


class RoomContract(Contract):
    """The time box."""

    def test_no_more_than_the_limit_is_taken(self, driver: Driver) -> None:
        ids = push(driver, 5)

        assert id_list(pop(driver, room=roomy(3)).reservations) == ids[:3]

    def test_the_box_is_filled_and_not_overfilled(self, driver: Driver) -> None:
        ids = push(driver, 9, name=QUICK)

        assert id_list(pop(driver, room=ROOM).reservations) == ids[:5]

    def test_quick_jobs_of_several_queues_fill_one_box(self, driver: Driver) -> None:
        low, high = push(driver, 2, queue="low", name=QUICK), push(driver, 2, queue="high", name=QUICK)

        assert id_list(pop(driver, "high", "low", room=ROOM).reservations) == high + low

    def test_a_slow_job_is_taken_alone(self, driver: Driver) -> None:
        slow, quick = push(driver, name=SLOW), push(driver, name=QUICK)

        assert id_list(pop(driver, room=ROOM).reservations) == slow
        assert id_list(pop(driver, room=ROOM).reservations) == quick

    def test_a_job_that_does_not_fit_ends_the_filling_and_is_not_overtaken(self, driver: Driver) -> None:
        first = push(driver, 2, name=QUICK)
        unknown, last = push(driver, name=UNKNOWN), push(driver, 2, name=QUICK)

        assert id_list(pop(driver, room=ROOM).reservations) == first
        assert id_list(pop(driver, room=ROOM).reservations) == unknown
        assert id_list(pop(driver, room=ROOM).reservations) == last

    def test_a_job_of_a_later_queue_does_not_take_the_place_of_one_that_does_not_fit(self, driver: Driver) -> None:
        quick, slow = push(driver, queue="high", name=QUICK), push(driver, queue="high", name=SLOW)
        push(driver, queue="low", name=QUICK)

        assert id_list(pop(driver, "high", "low", room=ROOM).reservations) == quick
        assert id_list(pop(driver, "high", "low", room=ROOM).reservations) == slow

    def test_a_second_attempt_is_taken_alone(self, driver: Driver) -> None:
        again = push(driver, name=QUICK)
        driver.settle([release(pop_one(driver), After(0.0))])
        push(driver, 3, name=QUICK, due=After(0.0))

        batches = [id_list(pop(driver, room=ROOM).reservations) for _ in range(3)]

        assert again in batches
