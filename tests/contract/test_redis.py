"""The Redis driver keeps the contract: by this host's clock, and by the server's own."""

import datetime as dt
import time

import pytest
import time_machine

from flask_jobs.drivers.redis.driver import RedisDriver
from flask_jobs.testing import contract

from ..servers import own_prefix, required_redis


class OnRedis(
    contract.Core,
    contract.RenewableContract,
    contract.TracksProgressContract,
    contract.InspectableContract,
    contract.ClearableContract,
    contract.PausableContract,
    contract.StoresFailedJobsContract,
):
    clock = "local"

    @pytest.fixture
    def advance(self):
        with time_machine.travel(dt.datetime.now(dt.UTC), tick=True) as traveller:
            yield traveller.shift

    @pytest.fixture
    def open_driver(self):
        url = required_redis()
        opened = []
        with own_prefix(url) as prefix:

            def open_driver():
                driver = RedisDriver(
                    url,
                    prefix=prefix,
                    connection="redis",
                    retry_after=self.lease,
                    remember_ids=self.remember_ids,
                    clock=self.clock,
                )
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


class TestRedis(OnRedis):
    pass


@pytest.mark.slow
class TestRedisByItsOwnClock(OnRedis):
    clock = "store"
    lease = 0.6
    delay = 0.25
    remember_ids = 0.6

    @pytest.fixture
    def advance(self):
        return time.sleep
