"""What a lease promises: a job whose worker vanished comes back, and is charged only if it may be to blame."""

from __future__ import annotations

from ...driver import Driver, Renewable
from ...envelope import Ack, After, At, Counters, Event
from ...ids import new_id
from ...stored import Sizes
from .support import Advance, Contract, id_list, pop, pop_ids, pop_one, push, release, roomy, timeless


class LeaseContract(Contract):
    """Leases and recovery: the rest of promise 2, promise 3, and the counting of attempts."""

    def test_a_lease_that_ran_out_is_taken_in_by_whoever_pops(
        self, driver: Driver, second: Driver, advance: Advance
    ) -> None:
        push(driver)
        lost = pop_one(driver)
        advance(self.lease + 0.01)

        popped = pop(second)

        (again,) = popped.reservations
        (reclaimed,) = popped.reclaimed
        assert again.envelope == reclaimed.envelope == lost.envelope
        assert (reclaimed.attempt, reclaimed.charged) == (1, True)
        assert again.counters == Counters(attempts=2)
        assert [(entry.event, entry.attempt) for entry in again.history] == [(Event.LEASE_EXPIRED, 1)]

    def test_a_job_popped_alone_though_there_was_room_is_charged(self, driver: Driver, advance: Advance) -> None:
        push(driver)
        pop(driver, room=roomy())
        advance(self.lease + 0.01)

        assert [reclaimed.charged for reclaimed in pop(driver).reclaimed] == [True]

    def test_jobs_popped_together_are_not_charged_but_interrupted(
        self, driver: Driver, second: Driver, advance: Advance
    ) -> None:
        ids = push(driver, 3)
        pop(driver, room=roomy())
        advance(self.lease + 0.01)

        popped = pop(second, room=roomy())

        (first,) = popped.reservations
        assert [reclaimed.envelope.id for reclaimed in popped.reclaimed] == ids
        assert [(reclaimed.attempt, reclaimed.charged) for reclaimed in popped.reclaimed] == [(1, False)] * 3
        assert first.counters == Counters(attempts=1, interruptions=1)
        assert [entry.event for entry in first.history] == [Event.INTERRUPTED]

    def test_a_job_interrupted_once_is_popped_alone_and_charged_from_then_on(
        self, driver: Driver, second: Driver, advance: Advance
    ) -> None:
        push(driver, 2)
        pop(driver, room=roomy())
        advance(self.lease + 0.01)
        pop(second, room=roomy())
        advance(self.lease + 0.01)

        reclaimed = pop(driver, room=roomy()).reclaimed

        assert [(item.attempt, item.charged) for item in reclaimed] == [(1, True)]

    def test_expired_leases_are_taken_in_by_portions_until_none_is_left(self, driver: Driver, advance: Advance) -> None:
        ids = push(driver, 230)
        for _ in range(5):
            pop(driver, room=roomy(46))
        advance(self.lease + 0.01)

        portions: list[list[str]] = []
        while (popped := pop(driver)).reservations:
            portions.append([reclaimed.envelope.id for reclaimed in popped.reclaimed])
            driver.settle([Ack(reservation) for reservation in popped.reservations])

        assert max(map(len, portions)) <= 100
        assert sorted(id_ for portion in portions for id_ in portion) == sorted(ids)
        assert driver.size("default") == Sizes()

    def test_a_recovered_pop_goes_back_uncharged_and_in_order_to_the_head(self, driver: Driver, second: Driver) -> None:
        ids = push(driver, 3)
        token = new_id()
        pop(driver, room=roomy(), token=token)
        later = push(driver) + push(driver, due=At(5.0))

        recovered = second.recover(token)

        popped = [pop_one(second) for _ in range(5)]
        assert recovered == 3
        assert id_list(popped)[:3] == ids
        assert set(id_list(popped)[3:]) == set(later)
        assert {reservation.counters for reservation in popped} == {Counters(attempts=1)}

    def test_what_stood_at_the_head_comes_first_again_after_a_recovery(self, driver: Driver) -> None:
        ids = push(driver, 2)
        front = push(driver, front=True)
        token = new_id()
        pop(driver, room=roomy(), token=token)

        driver.recover(token)

        assert pop_ids(driver, amount=3) == front + ids

    def test_a_recovery_leaves_what_it_is_told_to_keep_and_what_others_hold(
        self, driver: Driver, second: Driver
    ) -> None:
        ids = push(driver, 3)
        token = new_id()
        pop(driver, room=roomy(), token=token)
        push(driver)
        other = pop_one(second)

        recovered = driver.recover(token, keep=[ids[0], ids[2]])

        assert recovered == 1
        assert driver.size("default") == Sizes(ready=1, reserved=3)
        assert second.settle([Ack(other)]).stale == ()

    def test_a_second_recovery_finds_nothing(self, driver: Driver) -> None:
        push(driver)
        token = new_id()
        pop(driver, token=token)

        assert (driver.recover(token), driver.recover(token), driver.recover(new_id())) == (1, 0, 0)

    def test_a_settlement_after_the_recovery_is_stale(self, driver: Driver) -> None:
        push(driver)
        token = new_id()
        (reservation,) = pop(driver, token=token).reservations
        driver.recover(token)

        assert driver.settle([Ack(reservation)]).stale == (Ack(reservation),)
        assert driver.size("default") == Sizes(ready=1)

    def test_a_recovery_does_not_touch_what_was_put_back_meanwhile(self, driver: Driver) -> None:
        push(driver)
        token = new_id()
        (reservation,) = pop(driver, token=token).reservations
        driver.settle([release(reservation, After(self.delay))])

        assert driver.recover(token) == 0
        assert driver.size("default") == Sizes(delayed=1)


class RenewableContract(Contract):
    """Promise 6."""

    capability = Renewable

    def test_a_renewed_lease_lasts_its_whole_length_from_the_renewal(
        self, driver: Renewable, second: Driver, advance: Advance
    ) -> None:
        push(driver)
        reservation = pop_one(driver)
        advance(self.lease * 0.7)

        lost = driver.renew([reservation])

        advance(self.lease * 0.7)
        assert lost == []
        assert pop(second).reservations == ()
        assert driver.settle([Ack(reservation)]).stale == ()

    def test_a_renewed_lease_ends_all_the_same(self, driver: Renewable, second: Driver, advance: Advance) -> None:
        ids = push(driver)
        driver.renew([pop_one(driver)])
        advance(self.lease + 0.05)

        assert pop_ids(second, amount=1) == ids

    def test_a_lease_that_ran_out_is_not_revived(self, driver: Renewable, second: Driver, advance: Advance) -> None:
        ids = push(driver)
        reservation = pop_one(driver)
        advance(self.lease + 0.01)

        assert driver.renew([reservation]) == [reservation]
        assert pop_ids(second, amount=1) == ids

    def test_only_the_lost_ones_are_reported(self, driver: Renewable) -> None:
        push(driver, 3)
        held = pop(driver, room=roomy()).reservations
        driver.settle([Ack(held[0]), release(held[1], After(0.0))])

        assert driver.renew(held) == [held[0], held[1]]
        assert driver.renew([]) == []

    def test_a_renewal_by_an_earlier_holder_extends_nothing(
        self, driver: Renewable, second: Renewable, advance: Advance
    ) -> None:
        push(driver)
        late = pop_one(driver)
        advance(self.lease + 0.01)
        current = pop_one(second)

        assert driver.renew([late]) == [late]
        assert second.renew([current]) == []

    def test_what_was_renewed_is_held_as_it_was_popped(
        self, driver: Renewable, second: Driver, advance: Advance
    ) -> None:
        push(driver, 3)
        push(driver, front=True)
        token = new_id()
        popped = pop(driver, room=roomy(), token=token).reservations
        advance(self.lease * 0.7)
        driver.renew(popped)
        advance(self.lease * 0.7)

        assert len(popped) == 4
        assert timeless(second.held(token)) == timeless(popped)

    def test_renewed_leases_end_in_the_order_in_which_they_were_named(self, driver: Renewable) -> None:
        push(driver, 3)
        token = new_id()
        popped = pop(driver, room=roomy(), token=token).reservations
        driver.renew(popped[::-1])

        assert timeless(driver.held(token)) == timeless(popped[::-1])

    def test_a_renewal_counts_nothing(self, driver: Renewable) -> None:
        push(driver)
        reservation = pop_one(driver)
        driver.renew([reservation])
        driver.renew([reservation])
        driver.settle([release(reservation, After(0.0))])

        assert pop_one(driver).counters == Counters(attempts=2)
