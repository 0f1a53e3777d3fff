"""The database driver keeps the contract on PostgreSQL: with psycopg and psycopg2, and by the server's clock."""

import pytest

from flask_jobs.testing import contract
from tests.contract.by_the_stores_clock import StoresClock, StoresClockForLocks, Timed, TimedLocks
from tests.contract.on_servers import AllOfTheContract, OnServer
from tests.databases import POSTGRESQL


class TestPostgresqlWithPsycopg(AllOfTheContract):
    server = POSTGRESQL
    python_driver = "postgresql+psycopg"


class TestPostgresqlWithPsycopg2(AllOfTheContract):
    server = POSTGRESQL
    python_driver = "postgresql+psycopg2"


class TestPostgresqlWithoutNotify(OnServer, contract.WaitContract):
    server = POSTGRESQL
    notify = False


@pytest.mark.slow
class TestPostgresqlByItsOwnClock(StoresClock, OnServer, Timed):
    server = POSTGRESQL


@pytest.mark.slow
class TestPostgresqlLocksByItsOwnClock(StoresClockForLocks, OnServer, TimedLocks):
    server = POSTGRESQL
