"""The Redis driver keeps the contract: by this host's clock, by the server's own, and on a Cluster."""

import datetime as dt
import secrets

import pytest
import time_machine

from flask_jobs.drivers.redis.driver import RedisDriver
from flask_jobs.testing import contract
from tests.contract.by_the_stores_clock import AllByTheStoresClock, StoresClock, StoresClockForLocks, Timed, TimedLocks

from ..servers import own_prefix, redis_cluster, required_redis


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as nodes:
        yield nodes


class OnRedis:
    clock = "local"

    @pytest.fixture
    def advance(self):
        with time_machine.travel(dt.datetime.now(dt.UTC), tick=True) as traveller:
            yield traveller.shift

    @pytest.fixture
    def redis_url(self):
        return required_redis()

    @pytest.fixture
    def prefix(self, redis_url):
        with own_prefix(redis_url) as prefix:
            yield prefix

    @pytest.fixture
    def open_driver(self, redis_url, prefix):
        opened = []

        def open_driver():
            driver = RedisDriver(
                redis_url,
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


class AllOnRedis(
    OnRedis,
    contract.Core,
    contract.RenewableContract,
    contract.HoldsKeysContract,
    contract.RunsChainsContract,
    contract.RunsBatchesContract,
    contract.TracksProgressContract,
    contract.KeepsLocksContract,
    contract.InspectableContract,
    contract.ClearableContract,
    contract.PausableContract,
    contract.StoresFailedJobsContract,
):
    """All that the driver promises."""


class TestRedis(AllOnRedis):
    pass


@pytest.mark.slow
class TestRedisByItsOwnClock(StoresClock, OnRedis, Timed):
    pass


@pytest.mark.slow
class TestRedisLocksByItsOwnClock(StoresClockForLocks, OnRedis, TimedLocks):
    pass


@pytest.mark.volume
class TestAllOfRedisByItsOwnClock(AllByTheStoresClock, AllOnRedis):
    pass


@pytest.mark.slow
class TestRedisCluster(AllOnRedis):
    @pytest.fixture
    def redis_url(self, cluster):
        return cluster[0].url.replace("redis://", "redis+cluster://")

    @pytest.fixture
    def prefix(self):
        return f"test-{secrets.token_hex(6)}"
