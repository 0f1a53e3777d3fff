"""The permissions that the page on Redis tells to give are all that a connection needs."""

import re
from pathlib import Path

import pytest

from flask_jobs.drivers.redis.driver import RedisDriver
from flask_jobs.envelope import After, Progress
from flask_jobs.errors import StoreRefused
from flask_jobs.ids import new_id
from flask_jobs.testing.contract.support import fail, pop, pop_one, push

from ...servers import redis_cluster, redis_server

PAGE = (Path(__file__).parents[3] / "docs" / "stores" / "redis.md").read_text("utf-8")
USER = re.search(r"^user (shop on >secret .+)$", PAGE, re.MULTILINE)[1]
IN_A_CLUSTER = re.search(r"In a Cluster also `([^`]+)`", PAGE)[1]


def test_a_user_with_these_permissions_may_do_all_that_a_connection_does(tmp_path):
    with redis_server(tmp_path, "--save", "") as server:
        server.client().execute_command("ACL", "SETUSER", *USER.split())

        live_through_everything(server.url.replace("//", "//shop:secret@"))

        assert server.client().execute_command("ACL", "LOG") == []


def test_a_user_with_these_permissions_reaches_nothing_else(tmp_path):
    with redis_server(tmp_path, "--save", "") as server:
        server.client().execute_command("ACL", "SETUSER", *USER.split())
        driver = RedisDriver(server.url.replace("//", "//shop:secret@"), prefix="other", connection="redis")

        with pytest.raises(StoreRefused, match="this user may not do that"):
            push(driver)
        driver.close()


@pytest.mark.slow
def test_in_a_cluster_one_more_is_needed(tmp_path):
    with redis_cluster(tmp_path) as nodes:
        for node in nodes:
            node.client().execute_command("ACL", "SETUSER", *USER.split(), IN_A_CLUSTER)

        live_through_everything(nodes[0].url.replace("redis://", "redis+cluster://shop:secret@"))

        assert [node.client().execute_command("ACL", "LOG") for node in nodes] == [[], [], []]


def live_through_everything(url):
    driver = RedisDriver(url, prefix="shop", connection="redis")
    driver.prepare()
    push(driver, 3)
    (late,) = push(driver, due=After(60.0))
    held = pop_one(driver)
    driver.renew([held])
    driver.note_progress(held, Progress(1, 2))
    driver.settle([fail(held)])
    token = new_id()
    pop(driver, token=token)
    assert len(driver.held(token)) == 1
    assert driver.recover(token) == 1
    driver.pause("default")
    assert driver.paused()
    driver.resume("default")
    driver.wait(["empty"], timeout=0.05, stopping=lambda: False)
    assert driver.find_failed(held.envelope.id)
    assert driver.newest_failed()
    assert driver.retry(held.envelope.id, new_id())
    assert [len(driver.jobs(queue)) for queue in driver.queues()] == [4]
    assert driver.cancel(late)
    assert driver.clear("default") == 3
    assert driver.flush() == driver.count_failed() == 0
    driver.close()
