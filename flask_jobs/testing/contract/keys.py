"""Unique keys: one holder at a time, and no key without its job."""

from __future__ import annotations

import pytest

from ...driver import Clearable, Driver, HoldsKeys, Inspectable, StoresFailedJobs
from ...envelope import Ack, After, Key, Ties
from ...errors import KeyHeld
from ...ids import new_id
from ...pushes import Push, Pushed
from .support import Advance, Contract, envelope, fail, pop, pop_one, release, roomy, timeless


def keyed(text: str = "invoice:7", *, until_processing: bool = False, seconds: float | None = None) -> Push:
    """A job with this unique key, on its way into the store."""
    key = Key(f"{text:-<64}"[:64], text, until_processing=until_processing, seconds=seconds)
    return Push(envelope(ties=Ties(key=key)))


def digest(push: Push) -> str:
    """The digest of the job's key."""
    assert push.envelope.ties is not None
    assert push.envelope.ties.key is not None
    return push.envelope.ties.key.digest


class HoldsKeysContract(Contract):
    """What `HoldsKeys` promises."""

    capability = HoldsKeys

    @pytest.fixture
    def keys(self, driver: Driver) -> HoldsKeys:
        """The driver, for its keys."""
        assert isinstance(driver, HoldsKeys)
        return driver

    def test_a_push_whose_key_is_held_stores_nothing_and_names_the_holder(
        self, driver: Driver, second: Driver, keys: HoldsKeys
    ) -> None:
        first, again, other = keyed(), keyed(), keyed("invoice:8")

        answers = [*driver.push([first]), *second.push([again, other])]

        assert answers == [
            Pushed(first.envelope.id),
            Pushed(again.envelope.id, stored=False, holder=first.envelope.id),
            Pushed(other.envelope.id),
        ]
        assert keys.holder(digest(first)) == first.envelope.id
        assert driver.size("default").ready == 2

    def test_a_job_is_held_with_its_key_and_its_end_gives_that_back(self, driver: Driver, keys: HoldsKeys) -> None:
        job, token = keyed(seconds=self.lease), new_id()
        driver.push([job])
        popped = pop(driver, token=token).reservations

        held = driver.held(token)
        driver.settle([Ack(reservation) for reservation in held])

        assert timeless(held) == timeless(popped)
        assert [reservation.envelope for reservation in held] == [job.envelope]
        assert keys.holder(digest(job)) is None

    def test_jobs_of_one_push_hold_their_keys_against_each_other(self, driver: Driver) -> None:
        first, again = keyed(), keyed()

        answers = driver.push([first, Push(envelope()), again])

        assert [(answer.stored, answer.holder) for answer in answers] == [
            (True, None),
            (True, None),
            (False, first.envelope.id),
        ]

    def test_a_repeated_push_is_no_duplicate_of_itself(self, driver: Driver) -> None:
        push = keyed()
        driver.push([push])

        assert driver.push([push]) == [Pushed(push.envelope.id, stored=False)]

    def test_the_key_is_held_while_the_job_waits_runs_and_is_put_back(
        self, driver: Driver, keys: HoldsKeys, advance: Advance
    ) -> None:
        push = keyed()
        driver.push([push])
        held = [keys.holder(digest(push))]
        reservation = pop_one(driver)
        held.append(keys.holder(digest(push)))
        driver.settle([release(reservation, After(self.delay))])
        held.append(keys.holder(digest(push)))
        advance(self.delay + 0.01)
        again = pop_one(driver)
        held.append(keys.holder(digest(push)))

        assert held == [push.envelope.id] * 4
        assert again.envelope == push.envelope

    @pytest.mark.parametrize("kind", ["ack", "skip", "fail"])
    def test_the_end_of_the_job_gives_the_key_back(self, driver: Driver, keys: HoldsKeys, kind: str) -> None:
        push, following = keyed(), keyed()
        driver.push([push])
        reservation = pop_one(driver)

        end = fail(reservation) if kind == "fail" else Ack(reservation, skipped=kind == "skip")
        driver.settle([end])

        assert keys.holder(digest(push)) is None
        assert driver.push([following]) == [Pushed(following.envelope.id)]

    def test_jobs_that_end_together_give_their_keys_back(self, driver: Driver, keys: HoldsKeys) -> None:
        pushes = [keyed(f"invoice:{number}") for number in range(3)]
        driver.push([pushes[0], Push(envelope()), *pushes[1:]])
        reservations = pop(driver, room=roomy()).reservations

        driver.exchange([Ack(reservation) for reservation in reservations], ["default"], new_id(), roomy())

        assert [keys.holder(digest(push)) for push in pushes] == [None, None, None]

    def test_a_stale_end_frees_nothing(self, driver: Driver, second: Driver, keys: HoldsKeys, advance: Advance) -> None:
        push = keyed()
        driver.push([push])
        late = pop_one(driver)
        advance(self.lease + 0.01)
        current = pop_one(second)

        stale = driver.settle([Ack(late)]).stale

        assert stale == (Ack(late),)
        assert keys.holder(digest(push)) == push.envelope.id
        assert second.settle([Ack(current)]).stale == ()

    def test_a_key_with_a_bound_is_free_after_it_and_not_taken_from_its_next_holder(
        self, driver: Driver, keys: HoldsKeys, advance: Advance
    ) -> None:
        first, following = keyed(seconds=self.delay), keyed()
        driver.push([first])
        advance(self.delay + 0.01)

        answers = driver.push([following])
        reservation = pop_one(driver)
        driver.settle([Ack(reservation)])

        assert answers == [Pushed(following.envelope.id)]
        assert reservation.envelope.id == first.envelope.id
        assert keys.holder(digest(first)) == following.envelope.id

    def test_a_key_until_processing_is_given_back_once_and_not_taken_again(
        self, driver: Driver, keys: HoldsKeys, advance: Advance
    ) -> None:
        first, following, third = keyed(until_processing=True), keyed(), keyed()
        driver.push([first])
        reservation = pop_one(driver)

        given_back = keys.give_back_key(reservation)
        answers = driver.push([following])
        driver.settle([release(reservation, After(0.0))])
        advance(0.01)

        assert given_back
        assert answers == [Pushed(following.envelope.id)]
        assert driver.push([third]) == [Pushed(third.envelope.id, stored=False, holder=following.envelope.id)]

    def test_a_stale_delivery_gives_no_key_back(self, driver: Driver, keys: HoldsKeys, advance: Advance) -> None:
        push = keyed(until_processing=True)
        driver.push([push])
        late = pop_one(driver)
        advance(self.lease + 0.01)
        pop(driver)

        assert not keys.give_back_key(late)
        assert keys.holder(digest(push)) == push.envelope.id

    def test_what_operators_take_out_gives_its_key_back(self, driver: Driver, keys: HoldsKeys) -> None:
        if not isinstance(driver, Inspectable) or not isinstance(driver, Clearable):
            pytest.skip("The driver offers nothing to operators.")
        first, following = keyed(), keyed("invoice:8")
        driver.push([first, following])

        assert driver.cancel(first.envelope.id)
        assert driver.clear("default") == 1

        assert [keys.holder(digest(push)) for push in (first, following)] == [None, None]

    def test_f12_an_expired_lease_leaves_the_key_with_the_job(
        self, driver: Driver, keys: HoldsKeys, advance: Advance
    ) -> None:
        push = keyed()
        driver.push([push])
        pop(driver)
        advance(self.lease + 0.01)

        assert keys.holder(digest(push)) == push.envelope.id
        assert pop_one(driver).envelope.id == push.envelope.id

    def test_a_retried_job_takes_its_key_again_or_stays_failed(self, driver: Driver, keys: HoldsKeys) -> None:
        if not isinstance(driver, StoresFailedJobs):
            pytest.skip("The driver keeps no failed jobs.")
        push, other = keyed(), keyed()
        driver.push([push])
        driver.settle([fail(pop_one(driver))])
        driver.push([other])

        with pytest.raises(KeyHeld, match=other.envelope.id) as refused:
            driver.retry(push.envelope.id, new_id())

        assert refused.value.holder == other.envelope.id
        assert driver.retry_many(new_id, upto=driver.newest_failed()) == []
        assert driver.count_failed() == 1
        driver.settle([Ack(pop_one(driver))])
        assert driver.retry(push.envelope.id, again := new_id())
        assert keys.holder(digest(push)) == again

    def test_of_two_failed_jobs_with_one_key_one_is_retried(self, driver: Driver, keys: HoldsKeys) -> None:
        if not isinstance(driver, StoresFailedJobs):
            pytest.skip("The driver keeps no failed jobs.")
        for _ in range(2):
            driver.push([keyed()])
            driver.settle([fail(pop_one(driver))])
        driver.push([keyed("invoice:8")])
        driver.settle([fail(pop_one(driver))])

        upto, retried = driver.newest_failed(), 0
        while portion := driver.retry_many(new_id, upto=upto, limit=1):
            retried += len(portion)

        assert retried == 2
        assert driver.count_failed() == 1
