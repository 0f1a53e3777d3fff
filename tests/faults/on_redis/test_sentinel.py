"""F36: Sentinel names a new primary, and the driver follows."""

import time

import pytest

from flask_jobs.drivers.redis.driver import RedisDriver
from flask_jobs.errors import ConnectionLost, StoreRefused
from flask_jobs.pushes import Push
from flask_jobs.testing.contract.support import envelope, pop_one, push

from ...servers import redis_server, wait_until

pytestmark = pytest.mark.slow


def test_f36_a_failover_through_sentinel_is_followed(tmp_path):
    folders = [tmp_path / name for name in ("primary", "replica", "sentinel")]
    for folder in folders:
        folder.mkdir()
    options = ["--save", "", "--repl-diskless-sync-delay", "0"]
    with redis_server(folders[0], *options) as primary, redis_server(folders[1], *options) as replica:
        replica.client().replicaof("127.0.0.1", primary.port)
        wait_until(lambda: replica.client().info("replication")["master_link_status"] == "up", what="the replica")
        with sentinel_of(primary, folders[2]) as sentinel:
            driver = RedisDriver(
                f"redis+sentinel://127.0.0.1:{sentinel.port}/jobs/0", prefix="sentinel", connection="redis"
            )
            ids = push(driver)
            wait_until(lambda: replica.client().dbsize() == primary.client().dbsize(), what="the replica's data")
            wait_until(lambda: sentinel.client().execute_command("SENTINEL", "REPLICAS", "jobs"), what="the sentinel")

            primary.kill()
            failures = push_until_stored(driver)

            assert failures
            assert replica.client().role()[0] == b"master"
            assert pop_one(driver).envelope.id == ids[0]
            driver.close()


def push_until_stored(driver):
    failures = 0
    sent = Push(envelope(queue="later"))
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            driver.push([sent])
        except (ConnectionLost, StoreRefused):
            failures += 1
            time.sleep(0.1)
        else:
            return failures
    raise AssertionError("no primary was found")


def sentinel_of(primary, folder):
    configuration = folder / "sentinel.conf"
    configuration.write_text(
        f"sentinel monitor jobs 127.0.0.1 {primary.port} 1\n"
        "sentinel down-after-milliseconds jobs 500\n"
        "sentinel failover-timeout jobs 3000\n"
    )
    return redis_server(folder, sentinel=configuration)
