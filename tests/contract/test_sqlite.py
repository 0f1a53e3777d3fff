"""The database driver keeps the contract on SQLite: with its write-ahead log, without it, and by its own clock."""

import datetime as dt

import pytest
import sqlalchemy as sa
import time_machine

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.testing import contract
from tests.contract.by_the_stores_clock import AllByTheStoresClock, StoresClock, StoresClockForLocks, Timed, TimedLocks


class OnSqlite:
    clock = "local"
    wal = True

    @pytest.fixture
    def advance(self):
        with time_machine.travel(dt.datetime.now(dt.UTC), tick=True) as traveller:
            yield traveller.shift

    @pytest.fixture
    def app_engine(self, tmp_path):
        engine = sa.create_engine(f"sqlite:///{tmp_path / 'app.db'}")
        yield engine
        engine.dispose()

    @pytest.fixture
    def open_driver(self, app_engine):
        opened = []

        def open_driver():
            driver = DatabaseDriver(
                open_engine(app_engine.url),
                retry_after=self.lease,
                remember_ids=self.remember_ids,
                clock=self.clock,
                wal=self.wal,
                app_engine=app_engine,
            )
            driver.prepare()
            opened.append(driver)
            return driver

        yield open_driver
        for driver in opened:
            driver.close()

    @pytest.fixture
    def driver(self, advance, open_driver):
        return open_driver()

    @pytest.fixture
    def second(self, driver, open_driver):
        return open_driver()


class InItsJournal:
    def test_the_journal_is_the_one_this_class_is_about(self, driver, app_engine):
        with app_engine.connect() as connection:
            mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()

        assert mode == ("wal" if self.wal else "delete")


class AllOnSqlite(
    OnSqlite,
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
    InItsJournal,
):
    """All that the driver promises."""


class TestSqliteWithItsWriteAheadLog(AllOnSqlite):
    pass


class TestSqliteInItsDefaultJournalMode(
    OnSqlite, Timed, contract.SettleContract, contract.TransactionalContract, InItsJournal
):
    """What workers and producers do side by side, for the journal decides who keeps whom waiting."""

    wal = False


@pytest.mark.volume
class TestAllOfSqliteInItsDefaultJournalMode(AllOnSqlite):
    wal = False


@pytest.mark.slow
class TestSqliteByItsOwnClock(StoresClock, OnSqlite, Timed):
    pass


@pytest.mark.slow
class TestSqliteLocksByItsOwnClock(StoresClockForLocks, OnSqlite, TimedLocks):
    pass


@pytest.mark.volume
class TestAllOfSqliteByItsOwnClock(AllByTheStoresClock, AllOnSqlite):
    pass
