"""How a connection's settings become a Redis driver. Nothing is sent here."""

import subprocess
import sys
import textwrap

import pytest
import redis

from flask_jobs import config
from flask_jobs.drivers import BUILT_IN, Surroundings, factory
from flask_jobs.drivers.redis.driver import RedisDriver
from flask_jobs.errors import ConfigurationError


def make(tmp_path, settings, *, testing=False):
    read = config.read({"JOBS_CONNECTIONS": {"redis": settings}}, lambda driver: factory(driver, {}).keys)
    surroundings = Surroundings(
        app_engine=lambda: None, instance_path=tmp_path, run=lambda reservation: None, testing=testing
    )
    return factory("redis", BUILT_IN)(read.connection("redis"), surroundings)


def test_a_redis_connection_exists_without_being_configured(tmp_path):
    driver = make(tmp_path, {})

    assert isinstance(driver, RedisDriver)
    assert driver.retry_after == 90.0
    driver.close()


def test_a_client_goes_before_a_url_and_is_left_open(tmp_path):
    pool = redis.ConnectionPool.from_url("redis://127.0.0.1:1/0")
    client = redis.Redis(connection_pool=pool)

    driver = make(tmp_path, {"client": client, "url": "redis://elsewhere:1/0"})
    driver.close()

    assert client.connection_pool is pool


@pytest.mark.parametrize(
    "settings",
    [
        {"url": "postgresql://127.0.0.1/jobs"},
        {"url": "redis+cluster://"},
        {"url": "redis+cluster://host:rubbish"},
        {"url": "redis+sentinel://host:26379"},
        {"url": "redis://127.0.0.1:6379/0?socket_timeout=soon"},
        {"url": 7},
        {"prefix": 7},
        {"prefix": "{tag}"},
        {"client": "redis://127.0.0.1"},
    ],
)
def test_settings_that_cannot_work_are_refused_before_anything_is_sent(tmp_path, settings):
    with pytest.raises(ConfigurationError):
        make(tmp_path, settings)


def test_an_unknown_key_is_named():
    with pytest.raises(ConfigurationError, match="prefx"):
        config.read({"JOBS_CONNECTIONS": {"redis": {"prefx": "a"}}}, lambda driver: factory(driver, {}).keys)


def test_without_the_client_for_redis_the_message_says_what_to_install():
    program = textwrap.dedent(
        """
        import sys
        sys.modules["redis"] = None
        import flask_jobs.drivers.redis
        from pathlib import Path
        from flask_jobs import config
        from flask_jobs.drivers import Surroundings, factory
        from flask_jobs.errors import ConfigurationError
        read = config.read({"JOBS_DEFAULT": "redis"}, lambda driver: factory(driver, {}).keys)
        try:
            factory("redis", {})(read.connection("redis"), Surroundings(lambda: None, Path("."), print, False))
        except ConfigurationError as error:
            print(error)
        """
    )

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert 'pip install "redis>=5"' in told.stdout
    assert "'redis'" in told.stdout
