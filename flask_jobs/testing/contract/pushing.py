"""What a push promises: stored when it returns, once by its id, in order, under names that can be served."""

from __future__ import annotations

import pytest

from ...driver import PORTION, Driver
from ...envelope import Ack, After, At, Settlement
from ...errors import InvalidArgument
from ...pushes import Push, Pushed
from .support import BAD_NAMES, Advance, Contract, envelope, fail, id_list, pop, pop_ids, pop_one, push, roomy


class PushContract(Contract):
    """Promise 1, and the grammar of names."""

    def test_a_pushed_job_is_popped_as_it_was(self, driver: Driver, second: Driver) -> None:
        sent = envelope(queue="mail-High_1.a", name="shop.orders:send/invoice")

        answers = driver.push([Push(sent)])

        reservation = pop_one(second, "mail-High_1.a")
        assert answers == [Pushed(sent.id, stored=True)]
        assert reservation.envelope == sent
        assert (reservation.attempt, reservation.history, reservation.retry_until) == (1, (), None)
        assert reservation.pushed_at <= reservation.now

    def test_a_large_body_comes_back_unchanged(self, driver: Driver) -> None:
        sent = envelope()
        large = type(sent)(sent.id, sent.name, sent.queue, body="~ é 漢 \U0001f600 \\ '\" %s :x ? " * 20_000)

        driver.push([Push(large)])

        assert pop_one(driver).envelope.body == large.body

    def test_the_job_that_a_retry_repeats_is_kept_with_it(self, driver: Driver) -> None:
        sent = envelope()
        repeats = type(sent)(sent.id, sent.name, sent.queue, sent.body, retried_from=envelope().id)

        driver.push([Push(repeats)])

        assert pop_one(driver).envelope == repeats

    def test_a_deadline_counts_from_the_push_by_the_stores_clock(self, driver: Driver) -> None:
        driver.push([Push(envelope(), retry_until=After(3_600.0))])

        reservation = pop_one(driver)
        assert reservation.retry_until == pytest.approx(reservation.pushed_at + 3_600.0, abs=0.1)

    def test_a_deadline_may_be_an_instant(self, driver: Driver) -> None:
        driver.push([Push(envelope(), retry_until=At(2_000_000_000.25))])

        assert pop_one(driver).retry_until == 2_000_000_000.25

    def test_pushing_nothing_stores_nothing(self, driver: Driver) -> None:
        assert driver.push([]) == []
        assert driver.size("default").ready == 0

    def test_more_than_a_portion_is_stored_whole_and_in_order(self, driver: Driver) -> None:
        ids = push(driver, 2 * PORTION + 7)

        popped: list[str] = []
        while len(popped) < len(ids) and (found := pop(driver, room=roomy(500)).reservations):
            # Where this takes longer than a lease, the first ones come again.
            popped += id_list([one for one in found if one.counters.interruptions == 0])

        assert popped == ids

    @pytest.mark.parametrize("stage", ["waiting", "delayed", "reserved", "acked", "failed"])
    def test_an_id_that_was_used_is_not_stored_again(self, driver: Driver, second: Driver, stage: str) -> None:
        first = envelope()
        driver.push([Push(first, due=After(self.delay) if stage == "delayed" else After(0.0))])
        if stage in ("reserved", "acked", "failed"):
            reservation = pop_one(driver)
            ends: dict[str, list[Settlement]] = {"acked": [Ack(reservation)], "failed": [fail(reservation)]}
            driver.settle(ends.get(stage, []))
        before = driver.size("default")

        answers = second.push([Push(first)])

        assert answers == [Pushed(first.id, stored=False)]
        assert driver.size("default") == before

    @pytest.mark.parametrize("ends", ["acked", "failed"])
    def test_of_a_list_those_are_left_out_whose_ids_were_used(self, driver: Driver, ends: str) -> None:
        used, new = envelope(), envelope()
        driver.push([Push(used)])
        reservation = pop_one(driver)
        driver.settle([Ack(reservation) if ends == "acked" else fail(reservation)])

        answers = driver.push([Push(used), Push(new)])

        assert [answer.stored for answer in answers] == [False, True]
        assert pop_ids(driver, amount=3) == [new.id]

    def test_each_push_of_a_list_is_answered_for_itself(self, driver: Driver) -> None:
        known, new, other = envelope(), envelope(), envelope()
        driver.push([Push(known)])

        answers = driver.push([Push(new), Push(known), Push(other), Push(new)])

        assert [answer.stored for answer in answers] == [True, False, True, False]
        assert pop_ids(driver, amount=5) == [known.id, new.id, other.id]

    def test_an_id_is_forgotten_in_time(self, driver: Driver, advance: Advance) -> None:
        used = envelope()
        driver.push([Push(used)])
        driver.settle([Ack(pop_one(driver))])
        advance(self.remember_ids)

        (answer,) = driver.push([Push(used)])

        assert answer.stored
        assert pop_one(driver).envelope == used

    def test_queues_are_told_apart_exactly(self, driver: Driver) -> None:
        names = ["a.b", "A.b", "a-b", "a_b", "ab", "a.b.", "a" * 80]
        ids = {name: push(driver, queue=name) for name in names}

        assert {name: pop_ids(driver, name, amount=2) for name in names} == ids

    @pytest.mark.parametrize("name", BAD_NAMES)
    def test_a_name_that_could_not_be_served_is_refused_before_anything_is_stored(
        self, driver: Driver, name: str
    ) -> None:
        good = envelope()

        with pytest.raises(InvalidArgument):
            driver.push([Push(good), Push(envelope(queue=name))])
        with pytest.raises(InvalidArgument):
            driver.pop(["default", name], "token", roomy())
        with pytest.raises(InvalidArgument):
            driver.size(name)

        assert driver.size("default").ready == 0
