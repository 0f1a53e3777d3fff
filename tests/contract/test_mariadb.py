"""The database driver keeps the contract on MariaDB and MySQL, by a test clock and by the server's own."""

import pytest

from tests.contract.by_the_stores_clock import StoresClock, StoresClockForLocks, Timed, TimedLocks
from tests.contract.on_servers import AllOfTheContract, OnServer
from tests.databases import MARIADB


class TestMariadb(AllOfTheContract):
    server = MARIADB


@pytest.mark.slow
class TestMariadbByItsOwnClock(StoresClock, OnServer, Timed):
    server = MARIADB


@pytest.mark.slow
class TestMariadbLocksByItsOwnClock(StoresClockForLocks, OnServer, TimedLocks):
    server = MARIADB
