"""Unique keys and batches in any order of events, on every driver that has them."""

import datetime as dt

import pytest
import sqlalchemy as sa
import time_machine
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from flask_jobs.driver import HoldsKeys, RunsBatches
from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.drivers.memory import MemoryDriver
from flask_jobs.drivers.redis.driver import RedisDriver
from tests.contract.machines import LEASE, BatchesMachine, KeysMachine, Stage
from tests.databases import MARIADB, POSTGRESQL, empty
from tests.servers import own_prefix, required_redis

EXAMPLES = [20, pytest.param(400, marks=[pytest.mark.volume, pytest.mark.timeout(1800)])]


@pytest.fixture
def advance():
    with time_machine.travel(dt.datetime.now(dt.UTC), tick=False) as traveller:
        yield traveller.shift


@pytest.fixture
def in_memory(advance):
    return lambda: Stage(MemoryDriver(retry_after=LEASE), advance)


@pytest.fixture
def on_sqlite(advance, tmp_path):
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    yield from on_a_database(url, advance)


@pytest.fixture
def on_postgresql(advance, databases):
    yield from on_a_database(databases.url(POSTGRESQL), advance)


@pytest.fixture
def on_mariadb(advance, databases):
    yield from on_a_database(databases.url(MARIADB), advance)


def on_a_database(url, advance):
    app_engine = sa.create_engine(url)
    driver = DatabaseDriver(open_engine(url), retry_after=LEASE, clock="local", app_engine=app_engine)
    driver.prepare()

    def roll_back(pushes):
        with app_engine.connect() as connection:
            driver.push_within(connection, pushes)
            connection.rollback()

    def stage():
        empty(driver.engine)
        return Stage(driver, advance, roll_back)

    yield stage
    empty(driver.engine)
    driver.close()
    app_engine.dispose()


@pytest.fixture
def on_redis(advance):
    url = required_redis()

    def stage():
        prefix = own_prefix(url)
        driver = RedisDriver(
            url, prefix=prefix.__enter__(), connection="redis", retry_after=LEASE, remember_ids=3_600.0, clock="local"
        )

        def close():
            driver.close()
            prefix.__exit__(None, None, None)

        return Stage(driver, advance, close=close)

    return stage


on_each = pytest.mark.parametrize(
    "where",
    [
        "in_memory",
        "on_sqlite",
        pytest.param("on_postgresql", marks=pytest.mark.slow),
        pytest.param("on_mariadb", marks=pytest.mark.slow),
        "on_redis",
    ],
)


def run(machine, stage, capability, examples):
    first = stage()
    is_offered = isinstance(first.driver, capability)
    first.close()
    if not is_offered:
        pytest.skip(f"{type(first.driver).__name__} is no {capability.__name__}")
    run_state_machine_as_test(
        lambda: machine(stage()),
        settings=settings(
            max_examples=examples, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


@pytest.mark.parametrize("examples", EXAMPLES)
@on_each
def test_a_key_never_has_two_holders_and_none_that_is_gone(request, where, examples):
    run(KeysMachine, request.getfixturevalue(where), HoldsKeys, examples)


@pytest.mark.parametrize("examples", EXAMPLES)
@on_each
def test_the_counters_of_a_batch_always_add_up_and_its_callbacks_are_stored_once(request, where, examples):
    run(BatchesMachine, request.getfixturevalue(where), RunsBatches, examples)
