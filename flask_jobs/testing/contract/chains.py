"""Chains: each link in the step that ends the one before it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ...driver import Driver, RunsChains, StoresFailedJobs
from ...envelope import Ack, After, Envelope, Followed, Key, Reservation, Room, Ties
from ...ids import new_id
from ...pushes import ChainPush, Push, Pushed
from .support import Advance, Contract, envelope, fail, pop, pop_one, release, timeless


def chain(
    length: int = 3, *, catch: bool = True, queues: tuple[str, ...] = ("default",), key: Key | None = None
) -> ChainPush:
    """A chain of so many links; the last one holds the unique key, if there is one."""
    id_ = new_id()
    links = tuple(
        Push(
            envelope(
                queue=queues[place % len(queues)],
                ties=Ties(chain=id_, link=place + 1, key=key if place + 1 == length else None),
            )
        )
        for place in range(length)
    )
    last_resort = Push(envelope(name="shop.apologise", ties=Ties(chain=id_, is_callback=True)))
    return ChainPush(id_, links, last_resort if catch else None)


class RunsChainsContract(Contract):
    """What `RunsChains` promises."""

    capability = RunsChains

    @pytest.fixture
    def chains(self, driver: Driver) -> RunsChains:
        """The driver, for its chains."""
        assert isinstance(driver, RunsChains)
        return driver

    def test_the_first_link_is_pushed_and_the_rest_waits(self, driver: Driver, chains: RunsChains) -> None:
        plan = chain(3)

        answer = chains.push_chain(plan)
        stored = chains.chain(plan.id)

        assert answer == Pushed(plan.links[0].envelope.id)
        assert driver.size("default").ready == 1
        assert stored is not None
        assert (stored.id, stored.total, stored.link, stored.job_id) == (plan.id, 3, 1, answer.id)
        assert stored.waiting == tuple(link.envelope for link in plan.links[1:])
        assert plan.catch is not None
        assert stored.catch == plan.catch.envelope

    def test_a_link_is_held_with_its_place_and_its_end_pushes_the_next_one(
        self, driver: Driver, chains: RunsChains
    ) -> None:
        plan, token = chain(2), new_id()
        chains.push_chain(plan)
        popped = pop(driver, token=token).reservations

        held = driver.held(token)
        settled = driver.settle([Ack(reservation) for reservation in held])

        assert timeless(held) == timeless(popped)
        assert [reservation.envelope for reservation in held] == [plan.links[0].envelope]
        assert [followed.envelope for followed in settled.followed] == [plan.links[1].envelope]

    @pytest.mark.parametrize("skipped", [False, True])
    def test_the_end_of_a_link_pushes_the_next_one_until_none_is_left(
        self, driver: Driver, chains: RunsChains, skipped: bool
    ) -> None:
        plan = chain(3)
        chains.push_chain(plan)

        ran: list[Envelope] = []
        followed: list[Followed] = []
        for _ in range(3):
            reservation = pop_one(driver)
            ran.append(reservation.envelope)
            followed += driver.settle([Ack(reservation, skipped=skipped)]).followed

        assert ran == [link.envelope for link in plan.links]
        assert followed == [Followed(link.envelope) for link in plan.links[1:]]
        assert chains.chain(plan.id) is None
        assert pop(driver).reservations == ()

    def test_a_link_settled_by_an_exchange_may_be_popped_by_it(self, driver: Driver, chains: RunsChains) -> None:
        plan = chain(2)
        chains.push_chain(plan)

        exchange = driver.exchange([Ack(pop_one(driver))], ["default"], new_id(), Room())

        assert [one.envelope for one in exchange.settled.followed] == [plan.links[1].envelope]
        assert [one.envelope for one in exchange.popped.reservations] == [plan.links[1].envelope]

    def test_each_link_goes_to_its_own_queue(self, driver: Driver, chains: RunsChains) -> None:
        plan = chain(3, queues=("default", "mail"))
        chains.push_chain(plan)

        queues = []
        for _ in range(3):
            reservation = pop_one(driver, "default", "mail")
            queues.append(reservation.envelope.queue)
            driver.settle([Ack(reservation)])

        assert queues == ["default", "mail", "default"]

    def test_a_link_with_a_delay_waits_from_the_end_of_the_one_before(
        self, driver: Driver, chains: RunsChains, advance: Advance
    ) -> None:
        plan = chain(2)
        plan = replace(plan, links=(plan.links[0], replace(plan.links[1], due=After(self.delay))))
        chains.push_chain(plan)
        advance(self.delay)
        driver.settle([Ack(pop_one(driver))])

        before = pop(driver).reservations
        advance(self.delay + 0.01)

        assert before == ()
        assert pop_one(driver).envelope == plan.links[1].envelope

    def test_a_repeated_push_stores_the_chain_once(self, driver: Driver, chains: RunsChains) -> None:
        plan = chain(2)
        chains.push_chain(plan)
        driver.settle([Ack(pop_one(driver))])

        assert chains.push_chain(plan) == Pushed(plan.links[0].envelope.id, stored=False)
        stored = chains.chain(plan.id)
        assert stored is not None
        assert stored.link == 2

    def test_a_repeated_settlement_pushes_nothing_again(self, driver: Driver, chains: RunsChains) -> None:
        plan = chain(3)
        chains.push_chain(plan)
        done = Ack(pop_one(driver))
        driver.settle([done])

        again = driver.settle([done])

        assert (again.stale, again.followed) == ((), ())
        assert driver.size("default").ready == 1

    def test_a_stale_settlement_pushes_nothing(
        self, driver: Driver, second: Driver, chains: RunsChains, advance: Advance
    ) -> None:
        plan = chain(2)
        chains.push_chain(plan)
        late = pop_one(driver)
        advance(self.lease + 0.01)
        current = pop_one(second)

        answer = driver.settle([Ack(late)])

        assert (answer.stale, answer.followed) == ((Ack(late),), ())
        assert [one.envelope for one in second.settle([Ack(current)]).followed] == [plan.links[1].envelope]

    def test_a_release_changes_nothing(self, driver: Driver, chains: RunsChains) -> None:
        plan = chain(2)
        chains.push_chain(plan)

        assert driver.settle([release(pop_one(driver), After(0.0))]).followed == ()
        stored = chains.chain(plan.id)
        assert stored is not None
        assert stored.link == 1

    def test_a_failure_stops_the_chain_and_pushes_its_catch_once(self, driver: Driver, chains: RunsChains) -> None:
        plan = chain(3)
        chains.push_chain(plan)
        driver.settle([Ack(pop_one(driver))])

        followed = driver.settle([fail(pop_one(driver))]).followed

        assert plan.catch is not None
        assert followed == (Followed(plan.catch.envelope),)
        stored = chains.chain(plan.id)
        assert stored is not None
        assert (stored.link, stored.catch) == (2, None)
        assert stored.waiting == (plan.links[2].envelope,)
        assert driver.settle([Ack(pop_one(driver))]).followed == ()

    def test_f44_a_retried_link_brings_the_rest_along(self, driver: Driver, chains: RunsChains) -> None:
        assert isinstance(driver, StoresFailedJobs)
        plan = chain(3)
        chains.push_chain(plan)
        driver.settle([Ack(pop_one(driver))])
        driver.settle([fail(pop_one(driver))])
        driver.settle([Ack(pop_one(driver))])  # the catch

        driver.retry(plan.links[1].envelope.id, again := new_id())
        stored = chains.chain(plan.id)
        second_failure = driver.settle([fail(pop_one(driver))]).followed
        driver.retry(again, new_id())
        followed = driver.settle([Ack(pop_one(driver))]).followed
        driver.settle([Ack(pop_one(driver))])

        assert stored is not None
        assert stored.job_id == again
        assert second_failure == ()
        assert followed == (Followed(plan.links[2].envelope),)
        assert chains.chain(plan.id) is None

    @pytest.mark.parametrize("how", ["cancel", "clear"])
    def test_a_link_that_is_taken_out_ends_the_chain(self, driver: Driver, chains: RunsChains, how: str) -> None:
        plan = chain(2)
        chains.push_chain(plan)

        if how == "cancel":
            assert driver.cancel(plan.links[0].envelope.id)  # type: ignore[attr-defined]
        else:
            assert driver.clear("default") == 1  # type: ignore[attr-defined]

        assert chains.chain(plan.id) is None
        assert pop(driver).reservations == ()

    @pytest.mark.parametrize("how", ["forget", "flush"])
    def test_forgetting_the_failed_link_ends_the_chain(self, driver: Driver, chains: RunsChains, how: str) -> None:
        assert isinstance(driver, StoresFailedJobs)
        plan = chain(2, catch=False)
        chains.push_chain(plan)
        driver.settle([fail(pop_one(driver))])

        if how == "forget":
            assert driver.forget(plan.links[0].envelope.id)
        else:
            assert driver.flush() == 1

        assert chains.chain(plan.id) is None

    def test_a_first_link_whose_key_is_held_stores_nothing(self, driver: Driver, chains: RunsChains) -> None:
        key = Key("k" * 64, "invoice:7")
        holder = Push(envelope(ties=Ties(key=key)))
        driver.push([holder])
        plan = chain(1, key=key)

        answer = chains.push_chain(plan)

        assert answer == Pushed(plan.links[0].envelope.id, stored=False, holder=holder.envelope.id)
        assert chains.chain(plan.id) is None

    def test_a_later_link_whose_key_is_held_is_dropped_with_the_rest(self, driver: Driver, chains: RunsChains) -> None:
        key = Key("k" * 64, "invoice:7")
        plan = chain(2, key=key)
        chains.push_chain(plan)
        first = pop_one(driver)
        holder = Push(envelope(ties=Ties(key=key)))
        driver.push([holder])

        followed = driver.settle([Ack(first)]).followed

        assert followed == (Followed(plan.links[1].envelope, holder=holder.envelope.id),)
        assert chains.chain(plan.id) is None
        assert driver.size("default").ready == 1

    def test_an_expired_lease_does_not_advance_the_chain(
        self, driver: Driver, chains: RunsChains, advance: Advance
    ) -> None:
        plan = chain(2)
        chains.push_chain(plan)
        pop(driver)
        advance(self.lease + 0.01)

        again: Reservation = pop_one(driver)

        assert again.envelope == plan.links[0].envelope
        assert driver.size("default").ready == 0
