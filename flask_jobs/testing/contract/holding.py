"""What a pop still holds, for whoever looks after a worker that has died: the reservations, and nothing else."""

from __future__ import annotations

import pytest

from ...driver import Driver
from ...envelope import Ack, After, Counters
from ...ids import new_id
from ...pushes import Push
from ...stored import Sizes
from .support import (
    KINDS,
    Advance,
    Contract,
    envelope,
    id_list,
    pop,
    pop_one,
    push,
    release,
    roomy,
    settle,
    timeless,
)


class HoldingContract(Contract):
    """What `held` promises."""

    def test_what_a_pop_holds_is_what_it_gave(self, driver: Driver, second: Driver) -> None:
        driver.push([Push(envelope()), Push(envelope(), retry_until=After(self.delay)), Push(envelope())])
        token = new_id()
        reservations = pop(driver, room=roomy(), token=token).reservations

        held = second.held(token)

        assert len(held) == 3
        assert timeless(held) == timeless(reservations)
        assert {reservation.counters for reservation in held} == {Counters(attempts=1)}

    def test_a_later_delivery_is_held_with_its_counters_and_its_history(self, driver: Driver) -> None:
        push(driver)
        first, token = pop_one(driver), new_id()
        driver.settle([release(first, After(0.0), counters=Counters(attempts=1, errors=1, releases=2))])
        (again,) = pop(driver, token=token).reservations

        (held,) = driver.held(token)

        assert timeless([held]) == timeless([again])
        assert held.counters == Counters(attempts=2, errors=1, releases=2)
        assert len(held.history) == 1

    def test_it_is_held_in_the_order_of_the_pop(self, driver: Driver) -> None:
        push(driver, 3, queue="low")
        push(driver, 2, queue="high")
        push(driver, queue="high", front=True)
        token = new_id()
        popped = pop(driver, "high", "low", room=roomy(), token=token).reservations

        assert len(popped) == 6
        assert id_list(driver.held(token)) == id_list(popped)

    def test_each_pop_holds_its_own(self, driver: Driver, second: Driver) -> None:
        push(driver, 4)
        one, other = new_id(), new_id()
        first = pop(driver, room=roomy(2), token=one).reservations
        rest = pop(second, room=roomy(2), token=other).reservations

        assert timeless(driver.held(one)) == timeless(first)
        assert timeless(driver.held(other)) == timeless(rest)
        assert driver.held(new_id()) == []

    def test_a_lease_that_ran_out_is_held_until_somebody_takes_the_job_in(
        self, driver: Driver, second: Driver, advance: Advance
    ) -> None:
        push(driver)
        token = new_id()
        (reservation,) = pop(driver, token=token).reservations
        advance(self.lease + 0.01)

        (held,) = second.held(token)
        pop(second)

        assert timeless([held]) == timeless([reservation])
        assert held.now > reservation.now + 0.9 * self.lease
        assert driver.held(token) == []

    @pytest.mark.parametrize("kind", KINDS)
    def test_what_was_settled_is_held_no_longer(self, driver: Driver, kind: str) -> None:
        push(driver, 3)
        token = new_id()
        first, middle, last = pop(driver, room=roomy(), token=token).reservations
        driver.settle([settle(kind, middle, due=After(0.0))])

        assert timeless(driver.held(token)) == timeless([first, last])

    def test_what_was_recovered_is_held_no_longer(self, driver: Driver) -> None:
        push(driver, 3)
        token = new_id()
        kept, *_ = pop(driver, room=roomy(), token=token).reservations
        driver.recover(token, keep=[kept.envelope.id])

        assert timeless(driver.held(token)) == timeless([kept])

    def test_looking_at_what_is_held_changes_nothing(self, driver: Driver, second: Driver, advance: Advance) -> None:
        ids = push(driver, 2)
        token = new_id()
        pop(driver, room=roomy(), token=token)
        advance(self.lease * 0.6)

        second.held(token)

        assert driver.size("default") == Sizes(reserved=2)
        advance(self.lease * 0.5)
        assert [reclaimed.envelope.id for reclaimed in pop(driver).reclaimed] == ids

    @pytest.mark.parametrize("kind", KINDS)
    def test_a_settlement_of_what_is_held_is_one_of_what_was_popped(
        self, driver: Driver, second: Driver, kind: str
    ) -> None:
        push(driver)
        token = new_id()
        (popped,) = pop(driver, token=token).reservations
        (held,) = second.held(token)

        settled = second.settle([settle(kind, held, due=After(self.delay))])
        again = driver.settle([settle(kind, popped, due=After(self.delay))])

        assert settled.stale == again.stale == ()
        assert driver.size("default") == Sizes(delayed=int(kind == "release"))

    def test_what_is_held_counts_as_stale_after_a_settlement_of_another_kind(self, driver: Driver) -> None:
        push(driver)
        token = new_id()
        (popped,) = pop(driver, token=token).reservations
        (held,) = driver.held(token)
        driver.settle([release(popped, After(self.delay))])

        assert driver.settle([Ack(held)]).stale == (Ack(held),)
