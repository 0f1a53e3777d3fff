"""The database driver keeps the contract on MariaDB and MySQL, by a test clock and by the server's own."""

import pytest

from tests.contract.on_servers import AllOfTheContract, ByItsOwnClock, LocksByItsOwnClock
from tests.databases import MARIADB


class TestMariadb(AllOfTheContract):
    server = MARIADB


@pytest.mark.slow
class TestMariadbByItsOwnClock(ByItsOwnClock):
    server = MARIADB


@pytest.mark.slow
class TestMariadbLocksByItsOwnClock(LocksByItsOwnClock):
    server = MARIADB
