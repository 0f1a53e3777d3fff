"""What a driver promises that depends on the time, by the clock of its store, so that the tests wait for it.

A test class takes a clock, what opens the driver, and what is tested, in this order:
``class TestX(StoresClock, OnX, Timed)``, and with `StoresClockForLocks` and `TimedLocks` the same for locks.
"""

import time

import pytest

from flask_jobs.store import Granted, Held, Turn
from flask_jobs.testing import contract
from flask_jobs.turns import Quota


class StoresClock:
    clock = "store"
    lease = 1.2
    delay = 0.5
    # Longer than a busy machine lets a test wait that is not about forgetting.
    remember_ids = 3.0

    @pytest.fixture
    def advance(self):
        return time.sleep


class StoresClockForLocks(StoresClock):
    lease = 2.0
    remember_ids = 60.0


class AllByTheStoresClock(StoresClock):
    """For the whole contract, most of which knows nothing of time."""

    hold = 1.5
    window = 2.0


class Timed(
    contract.PushContract,
    contract.PopContract,
    contract.LeaseContract,
    contract.WaitContract,
    contract.RenewableContract,
    contract.PausableContract,
):
    """What depends on the time."""


class TimedLocks:
    """What depends on the time beside the jobs."""

    def test_a_lock_ends_with_the_lease_of_its_holder(self, driver, second):
        contract.support.push(driver)
        first = contract.on_store.delivery(driver)
        began = time.time()
        driver.store.acquire("k", first, seconds=0)

        contract.support.until(lambda: takes(second.store))

        assert time.time() - began > 0.5 * self.lease
        assert not driver.store.release("k", first)

    def test_a_lock_ends_after_its_own_time(self, driver, second):
        began = time.time()
        driver.store.acquire("k", contract.on_store.holder(), seconds=1)

        contract.support.until(lambda: takes(second.store))

        assert time.time() - began > 0.9

    def test_a_turn_begins_with_a_window(self, driver, second):
        limit = Quota("emails", 1, 2.0)
        turns = [contract.on_store.book(driver.store, limit, owner=owner) for owner in ("a", "b", "c")]
        last = turns[-1]

        contract.support.until(
            lambda: isinstance(contract.on_store.book(second.store, limit, owner="c"), Granted), within=20
        )

        assert isinstance(last, Turn)
        assert last.at % 2.0 == 0
        assert time.time() > last.at - 0.1

    def test_a_count_ends_after_its_time(self, driver, second):
        ends = driver.store.tally("errors", seconds=1).ends

        contract.support.until(lambda: second.store.tally("errors", 0, seconds=1).count == 0)

        assert time.time() > ends - 0.1


def takes(store):
    return store.acquire("k", contract.on_store.holder(), seconds=60) == Held()
