"""Drivers on PostgreSQL and MariaDB, in an empty database, for the tests of this folder."""

import pytest

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from tests.databases import MARIADB, POSTGRESQL, an_apps_engine, empty


@pytest.fixture(params=[POSTGRESQL, MARIADB], ids=["postgresql", "mariadb"])
def server(request):
    return request.param


@pytest.fixture
def engine(server, databases):
    """Our engine for the database, which has tables and no jobs."""
    engine = databases(server, open_engine)
    driver = DatabaseDriver(engine, owns_engine=False)
    driver.prepare()
    driver.close()
    empty(engine)
    return engine


@pytest.fixture
def app_engine(server, engine, databases):
    """An engine as an app has it."""
    return databases(server, an_apps_engine)


@pytest.fixture
def open_driver(engine):
    """Makes drivers with engines of their own, for this database or another url."""
    opened = []

    def open_(url=None, **options):
        driver = DatabaseDriver(open_engine(url or engine.url), **options)
        opened.append(driver)
        return driver

    yield open_
    for driver in opened:
        driver.close()


@pytest.fixture
def driver(open_driver):
    return open_driver()
