"""What settling promises: fenced by the receipt, whole or nothing, and repeatable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ...driver import Driver, Inspectable, StoresFailedJobs
from ...envelope import Ack, After, At, Counters, Event, Reservation
from ...ids import new_id
from ...stored import Sizes
from .support import (
    KINDS,
    Advance,
    Contract,
    id_list,
    pop,
    pop_ids,
    pop_one,
    push,
    release,
    roomy,
    settle,
)

each_kind = pytest.mark.parametrize("kind", KINDS)


class SettleContract(Contract):
    """Promises 4 and 5."""

    def test_an_acked_job_is_gone(self, driver: Driver) -> None:
        push(driver)

        stale = driver.settle([Ack(pop_one(driver))]).stale

        assert stale == ()
        assert driver.size("default") == Sizes()

    def test_settling_nothing_changes_nothing(self, driver: Driver) -> None:
        assert driver.settle([]).stale == ()

    def test_a_released_job_comes_back_when_it_is_due(self, driver: Driver, second: Driver, advance: Advance) -> None:
        ids = push(driver)
        driver.settle([release(pop_one(driver), After(self.delay))])

        early = pop(second).reservations
        advance(self.delay + 0.01)

        assert early == ()
        assert pop_ids(second, amount=1) == ids

    def test_a_release_keeps_the_counters_and_the_history_it_is_given(self, driver: Driver, second: Driver) -> None:
        push(driver)
        given = Counters(attempts=0, errors=2, releases=3, interruptions=1)
        driver.settle([release(pop_one(driver), At(5.0), counters=given)])

        again = pop_one(second)

        assert again.counters == replace(given, attempts=1)
        assert [(entry.event, entry.reason) for entry in again.history] == [(Event.RELEASED, "the customer is busy")]

    def test_the_history_grows_with_every_release_and_stays_bounded(self, driver: Driver) -> None:
        push(driver)
        for _ in range(25):
            driver.settle([release(pop_one(driver), At(5.0))])

        reservation = pop_one(driver)

        assert [entry.attempt for entry in reservation.history] == list(range(6, 26))

    @each_kind
    def test_a_settlement_after_the_lease_passed_on_is_stale_and_writes_nothing(
        self, driver: Driver, second: Driver, advance: Advance, kind: str
    ) -> None:
        push(driver)
        late = pop_one(driver)
        advance(self.lease + 0.01)
        current = pop_one(second)
        before = seen(driver, current)

        settlement = settle(kind, late, due=After(0.0))

        assert driver.settle([settlement]).stale == (settlement,)
        assert seen(driver, current) == before
        assert second.settle([Ack(current)]).stale == ()

    @each_kind
    def test_a_lease_that_ran_out_can_be_settled_while_nobody_took_the_job(
        self, driver: Driver, advance: Advance, kind: str
    ) -> None:
        push(driver)
        reservation = pop_one(driver)
        advance(self.lease + 0.01)

        assert driver.settle([settle(kind, reservation, due=After(self.delay))]).stale == ()
        assert pop(driver).reservations == ()

    @each_kind
    def test_repeating_a_settlement_reports_it_as_applied_and_changes_nothing(
        self, driver: Driver, second: Driver, kind: str
    ) -> None:
        push(driver)
        reservation = pop_one(driver)
        settlement = settle(kind, reservation, due=After(self.delay))
        driver.settle([settlement])
        before = seen(driver, reservation)

        assert driver.settle([settlement]).stale == ()
        assert second.settle([settlement]).stale == ()
        assert seen(driver, reservation) == before

    def test_a_release_is_known_again_after_others_had_the_job(self, driver: Driver, second: Driver) -> None:
        push(driver)
        first = release(pop_one(driver), After(0.0))
        driver.settle([first])
        second_release = release(pop_one(second), After(0.0))
        second.settle([second_release])
        current = pop_one(second)

        assert driver.settle([first, second_release]).stale == ()
        assert second.settle([Ack(current)]).stale == ()
        assert driver.settle([first, second_release]).stale == ()

    @pytest.mark.parametrize(
        ("done", "other"), [("ack", "release"), ("ack", "fail"), ("release", "ack"), ("fail", "ack")]
    )
    def test_another_settlement_of_a_settled_delivery_is_stale(self, driver: Driver, done: str, other: str) -> None:
        push(driver)
        reservation = pop_one(driver)
        driver.settle([settle(done, reservation, due=After(self.delay))])
        before = seen(driver, reservation)

        settlement = settle(other, reservation, due=After(self.delay))

        assert driver.settle([settlement]).stale == (settlement,)
        assert seen(driver, reservation) == before

    @each_kind
    def test_a_receipt_of_another_delivery_settles_nothing(self, driver: Driver, kind: str) -> None:
        push(driver)
        reservation = pop_one(driver)
        settlement = settle(kind, replace(reservation, receipt=reservation.receipt[:-1] + "!"), due=After(0.0))

        assert driver.settle([settlement]).stale == (settlement,)
        assert driver.size("default") == Sizes(reserved=1)

    def test_a_stale_settlement_does_not_keep_the_others_from_being_applied(
        self, driver: Driver, second: Driver, advance: Advance
    ) -> None:
        push(driver)
        late = pop_one(driver)
        advance(self.lease + 0.01)
        pop_one(second)
        push(driver, 3)
        good = pop(driver, room=roomy()).reservations

        stale = driver.settle([Ack(good[0]), Ack(late), release(good[1], After(self.delay)), Ack(good[2])]).stale

        assert stale == (Ack(late),)
        assert driver.size("default") == Sizes(delayed=1, reserved=1)

    def test_an_exchange_settles_and_pops_in_one_step(self, driver: Driver) -> None:
        ids = push(driver, 2)
        first = pop_one(driver)

        exchange = driver.exchange([Ack(first)], ["default"], new_id(), roomy())

        assert exchange.stale == ()
        assert id_list(exchange.popped.reservations) == ids[1:]
        assert driver.size("default") == Sizes(reserved=1)

    def test_an_exchange_pops_what_it_has_just_put_back(self, driver: Driver) -> None:
        ids = push(driver)

        exchange = driver.exchange([release(pop_one(driver), After(0.0))], ["default"], new_id(), roomy())

        assert id_list(exchange.popped.reservations) == ids

    def test_an_exchange_reports_what_was_stale_and_pops_all_the_same(
        self, driver: Driver, second: Driver, advance: Advance
    ) -> None:
        push(driver)
        late = pop_one(driver)
        advance(self.lease + 0.01)
        second.settle([Ack(pop_one(second))])
        ids = push(driver)

        exchange = driver.exchange([release(late, After(0.0))], ["default"], new_id(), roomy())

        assert [settlement.reservation for settlement in exchange.stale] == [late]
        assert id_list(exchange.popped.reservations) == ids


def seen(driver: Driver, reservation: Reservation) -> list[object]:
    """All that can be seen of the job from outside."""
    job_id, queue = reservation.envelope.id, reservation.envelope.queue
    stored = driver.find(job_id) if isinstance(driver, Inspectable) else None
    failed = driver.failed() if isinstance(driver, StoresFailedJobs) else []
    return [driver.size(queue), stored, failed]
