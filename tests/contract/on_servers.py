"""What the contract's test classes for database servers share: one database for all, emptied before each test."""

import datetime as dt

import pytest
import sqlalchemy as sa
import time_machine

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.testing import contract
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
