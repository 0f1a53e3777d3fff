from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.databases import MARIADB, POSTGRESQL, empty
from tests.servers import own_prefix, required_redis

from .workers import Site

STORES = ("sqlite", "postgresql", "mariadb", "redis")


@pytest.fixture(params=STORES)
def site_on_each_store(request: pytest.FixtureRequest, site: Site) -> Iterator[Site]:
    """A site whose jobs are kept on one store after the other, which is empty."""
    with ExitStack() as stack:
        match request.param:
            case "postgresql" | "mariadb":
                databases = request.getfixturevalue("databases")
                server = POSTGRESQL if request.param == "postgresql" else MARIADB
                site.connection["url"] = databases.url(server).render_as_string(hide_password=False)
                with site.driver() as driver:
                    empty(driver.engine)
            case "redis":
                url = required_redis()
                prefix = stack.enter_context(own_prefix(url))
                site.connection.update(driver="redis", url=url, prefix=prefix)
                site.name = "redis"
        yield site
        for worker in site.workers:
            worker.end()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.close()
