"""A shop on each store, whose jobs are run by workers within the test."""

from __future__ import annotations

import pytest

from tests.apps import Shop
from tests.databases import MARIADB, POSTGRESQL, empty
from tests.servers import own_prefix, required_redis

STORES = ("sqlite", "postgresql", "mariadb", "redis")


def connection_on(request, store, folder):
    """The settings of a connection on this store, which is empty; and what ends it."""
    match store:
        case "sqlite":
            return {"driver": "database", "url": f"sqlite:///{folder / 'jobs.sqlite'}"}
        case "redis":
            prefix = request.getfixturevalue("redis_prefix")
            return {"driver": "redis", "url": required_redis(), "prefix": prefix}
    databases = request.getfixturevalue("databases")
    url = databases.url(POSTGRESQL if store == "postgresql" else MARIADB)
    return {"driver": "database", "url": url.render_as_string(hide_password=False)}


@pytest.fixture
def redis_prefix():
    with own_prefix(required_redis()) as prefix:
        yield prefix


@pytest.fixture(params=STORES)
def store(request):
    return request.param


@pytest.fixture
def open_on(request, tmp_path):
    """Makes shops with a connection "main" on a store, and one named "other" on SQLite."""
    shops = []

    def open_(store="sqlite", also=None, clock="store", **config):
        folder = tmp_path / f"shop{len(shops)}"
        folder.mkdir()
        connections = {
            "main": {**connection_on(request, store, folder), "retry_after": 3, "clock": clock},
            "other": {"driver": "database", "url": f"sqlite:///{folder / 'other.sqlite'}"},
        }
        connections |= also or {}
        shop = Shop("flask_sqlalchemy", folder, JOBS_CONNECTIONS=connections, **{"JOBS_DEFAULT": "main", **config})
        shops.append(shop)
        with shop.context():
            for name in ("main", "other"):
                driver = shop.driver(name)
                driver.prepare()
                if store in ("postgresql", "mariadb") and name == "main":
                    empty(driver.engine)
        return shop

    yield open_
    for shop in shops:
        shop.close()


@pytest.fixture
def shop(open_on, store):
    """A shop on each store, within an app context."""
    shop = open_on(store)
    with shop.context():
        yield shop
