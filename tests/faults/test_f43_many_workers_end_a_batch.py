"""Many workers in several processes end the members of a batch together: each callback is stored once."""

import pytest

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.drivers.redis.driver import RedisDriver
from flask_jobs.envelope import Envelope, Ties
from flask_jobs.ids import new_id
from flask_jobs.pushes import BatchPush, Push, Role
from flask_jobs.stored import Sizes
from tests.databases import MARIADB, POSTGRESQL, empty
from tests.faults.support import answer, start
from tests.servers import own_prefix, required_redis, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

MEMBERS = 40


@pytest.fixture(params=["sqlite", POSTGRESQL, MARIADB, "redis"], ids=["sqlite", "postgresql", "mariadb", "redis"])
def store(request, tmp_path):
    """A driver, and its url and prefix for other processes."""
    if request.param == "redis":
        url = required_redis()
        with own_prefix(url) as prefix:
            driver = RedisDriver(url, prefix=prefix, connection="redis", retry_after=60.0)
            yield driver, url, prefix
            driver.close()
        return
    databases = request.getfixturevalue("databases")
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if request.param == "sqlite" else databases.url(request.param)
    driver = DatabaseDriver(open_engine(url))
    driver.prepare()
    empty(driver.engine)
    yield driver, driver.engine.url.render_as_string(hide_password=False), ""
    empty(driver.engine)
    driver.close()


@pytest.fixture
def driver(store):
    return store[0]


@pytest.fixture
def start_workers(store):
    """Starts two processes with so many workers each."""
    _, url, prefix = store
    return lambda threads: [start("members.py", url, prefix, threads) for _ in range(2)]


def batch(failing):
    """A batch of so many members, the first of which fail."""
    id_ = new_id()
    members = tuple(
        Push(Envelope(new_id(), "shop.send-invoice", "default", body, ties=Ties(batch=id_)))
        for body in ["fail"] * failing + ["{}"] * (MEMBERS - failing)
    )
    callbacks = {
        role: Push(Envelope(new_id(), f"shop.{role.value}", "callbacks", "{}", ties=Ties(batch=id_, is_callback=True)))
        for role in (Role.THEN, Role.CATCH, Role.FINALLY)
    }
    return BatchPush(id_, members, "statements", callbacks, allow_failures=True)


def is_over(driver, plan):
    stored = driver.batch(plan.id)
    return stored.finished_at is not None and stored.callbacks == 0


@pytest.mark.parametrize(("rounds", "threads"), [(2, 5), pytest.param(50, 10, marks=[pytest.mark.volume])])
def test_f43_each_callback_is_stored_once_when_many_workers_end_the_last_members_together(
    driver, start_workers, rounds, threads
):
    workers = start_workers(threads)
    plans = [batch(failing=5 if number % 2 else 0) for number in range(rounds)]

    for plan in plans:
        driver.push_batch(plan)
        wait_until(lambda plan=plan: is_over(driver, plan), what="the batch and its callbacks", within=60)
    answers = [answer(worker) for worker in workers]

    followed = sorted(tuple(one) for found in answers for one in found["followed"])
    expected = [
        (plan.id, name)
        for number, plan in enumerate(plans)
        for name in (("shop.catch", "shop.finally") if number % 2 else ("shop.finally", "shop.then"))
    ]
    assert [found["errors"] for found in answers] == [[], []]
    assert [found["stale"] for found in answers] == [[], []]
    assert followed == sorted(expected)
    for number, plan in enumerate(plans):
        stored, failing = driver.batch(plan.id), 5 if number % 2 else 0
        assert (stored.pending, stored.done, stored.failed, stored.skipped) == (0, MEMBERS - failing, failing, 0)
    assert (driver.size("default"), driver.size("callbacks")) == (Sizes(), Sizes())


def test_f43_members_that_are_added_while_others_end_are_all_counted(driver, start_workers):
    workers = start_workers(5)
    plan = batch(failing=0)
    driver.push_batch(plan)

    added = 0
    while added < 30:
        more = [Push(Envelope(new_id(), "shop.send-invoice", "default", "{}", ties=Ties(batch=plan.id))) for _ in "ab"]
        if driver.add_to_batch(plan.id, more) is None:
            break
        added += 2
    wait_until(lambda: is_over(driver, plan), what="the batch and its callbacks", within=60)
    answers = [answer(worker) for worker in workers]

    stored = driver.batch(plan.id)
    assert [found["errors"] for found in answers] == [[], []]
    assert (stored.total, stored.done, stored.pending) == (MEMBERS + added, MEMBERS + added, 0)
    assert sorted(name for found in answers for _, name in found["followed"]) == ["shop.finally", "shop.then"]
    assert (driver.size("default"), driver.size("callbacks")) == (Sizes(), Sizes())
