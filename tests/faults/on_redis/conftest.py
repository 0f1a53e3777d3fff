"""A prefix of its own for each test, and drivers under it."""

from importlib import resources
from urllib.parse import urlsplit

import pytest

from flask_jobs.drivers.redis.driver import RedisDriver
from flask_jobs.drivers.redis.scripts import load

from ...proxy import proxy_to
from ...servers import own_prefix, plain_client, redis_server, required_redis


@pytest.fixture
def redis_url():
    return required_redis()


@pytest.fixture
def prefix(redis_url):
    with own_prefix(redis_url) as prefix:
        yield prefix


@pytest.fixture
def client(redis_url):
    client = plain_client(redis_url)
    yield client
    client.close()


@pytest.fixture
def open_driver(redis_url, prefix):
    """Makes drivers that share one connection's jobs, on the common server unless another URL is given."""
    opened = []

    def open_driver(url=redis_url, **options):
        driver = RedisDriver(url, **{"prefix": prefix, "connection": "redis", "retry_after": 60.0, **options})
        opened.append(driver)
        return driver

    yield open_driver
    for driver in opened:
        driver.close()


@pytest.fixture
def driver(open_driver):
    return open_driver()


@pytest.fixture
def known_scripts(client):
    """All scripts are known to the server, so that a cut falls on the call that does the work."""
    folder = resources.files("flask_jobs.drivers.redis").joinpath("lua")
    names = [file.name.removesuffix(".lua") for file in folder.iterdir() if file.read_text().startswith("-- uses:")]
    for name in names:
        client.script_load(load(name).text)


@pytest.fixture
def proxy(redis_url, known_scripts):
    with proxy_to(urlsplit(redis_url).port or 6379) as proxy:
        yield proxy


@pytest.fixture
def own_server(tmp_path):
    """A server that the test may stop, fill and break."""
    with redis_server(tmp_path, "--appendonly", "yes", "--save", "", "--repl-diskless-sync-delay", "0") as server:
        yield server
