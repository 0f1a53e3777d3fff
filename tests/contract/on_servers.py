"""What the contract's test classes for database servers share: one database for all, emptied before each test."""

import datetime as dt
import time

import pytest
import sqlalchemy as sa
import time_machine

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.store import Granted, Held, Turn
from flask_jobs.testing import contract
from flask_jobs.turns import Quota
from tests.databases import an_apps_engine, empty


class OnServer:
    server: str
    clock = "local"
    notify = True
    python_driver: str | None = None

    @pytest.fixture
    def advance(self):
        with time_machine.travel(dt.datetime.now(dt.UTC), tick=True) as traveller:
            yield traveller.shift

    @pytest.fixture
    def app_engine(self, databases):
        return databases(self.server, an_apps_engine, self.python_driver)

    @pytest.fixture
    def open_driver(self, app_engine, databases):
        engine = databases(self.server, open_engine, self.python_driver)
        opened = []

        def open_driver():
            driver = DatabaseDriver(
                engine,
                retry_after=self.lease,
                remember_ids=self.remember_ids,
                clock=self.clock,
                notify=self.notify,
                app_engine=app_engine,
                owns_engine=False,
            )
            opened.append(driver)
            return driver

        yield open_driver
        for driver in opened:
            driver.close()

    @pytest.fixture
    def driver(self, advance, open_driver):
        driver = open_driver()
        driver.prepare()
        empty(driver.engine)
        return driver

    @pytest.fixture
    def second(self, driver, open_driver):
        return open_driver()


class AllOfTheContract(
    OnServer,
    contract.Core,
    contract.RenewableContract,
    contract.HoldsKeysContract,
    contract.RunsChainsContract,
    contract.RunsBatchesContract,
    contract.TracksProgressContract,
    contract.KeepsLocksContract,
    contract.InspectableContract,
    contract.KeepsTablesContract,
    contract.ClearableContract,
    contract.PausableContract,
    contract.StoresFailedJobsContract,
    contract.TransactionalContract,
):
    """What the driver promises, by a test clock."""

    @pytest.fixture(autouse=True)
    def _notes(self, app_engine, driver):
        contract.transactions.NOTES.create(app_engine, checkfirst=True)
        with app_engine.begin() as connection:
            connection.execute(sa.delete(contract.transactions.NOTES))


class ByItsOwnClock(
    OnServer,
    contract.PushContract,
    contract.PopContract,
    contract.LeaseContract,
    contract.WaitContract,
    contract.RenewableContract,
    contract.PausableContract,
):
    """What depends on the time, by the server's clock."""

    clock = "store"
    lease = 0.6
    delay = 0.25
    remember_ids = 0.6

    @pytest.fixture
    def advance(self):
        return time.sleep


class LocksByItsOwnClock(OnServer):
    """What depends on the time beside the jobs, by the server's clock."""

    clock = "store"
    lease = 2.0
    remember_ids = 60.0

    @pytest.fixture
    def advance(self):
        return time.sleep

    def test_a_lock_ends_with_the_lease_of_its_holder(self, driver, second):
        contract.support.push(driver)
        first = contract.storing.delivery(driver)
        began = time.time()
        driver.store.acquire("k", first, seconds=0)

        contract.support.until(lambda: takes(second.store))

        assert time.time() - began > 0.5 * self.lease
        assert not driver.store.release("k", first)

    def test_a_lock_ends_after_its_own_time(self, driver, second):
        began = time.time()
        driver.store.acquire("k", contract.storing.holder(), seconds=1)

        contract.support.until(lambda: takes(second.store))

        assert time.time() - began > 0.9

    def test_a_turn_begins_with_a_window(self, driver, second):
        limit = Quota("emails", 1, 2.0)
        turns = [contract.storing.book(driver.store, limit, owner=owner) for owner in ("a", "b", "c")]
        last = turns[-1]

        contract.support.until(
            lambda: isinstance(contract.storing.book(second.store, limit, owner="c"), Granted), within=20
        )

        assert isinstance(last, Turn)
        assert last.at % 2.0 == 0
        assert time.time() > last.at - 0.1

    def test_a_count_ends_after_its_time(self, driver, second):
        ends = driver.store.tally("errors", seconds=1).ends

        contract.support.until(lambda: second.store.tally("errors", 0, seconds=1).count == 0)

        assert time.time() > ends - 0.1


def takes(store):
    return store.acquire("k", contract.storing.holder(), seconds=60) == Held()
