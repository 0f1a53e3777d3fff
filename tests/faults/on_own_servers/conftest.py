"""A store on a server that the test may stop and start again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.stores import Store, own_server, store_on
from tests.faults.workers import Site
from tests.processes import ServerProcess


@pytest.fixture(scope="package", params=["postgresql", "mariadb", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="package")
def server_of_kind(kind: str) -> Iterator[ServerProcess]:
    with own_server(kind) as server:
        yield server


@pytest.fixture
def store(server_of_kind: ServerProcess, site: Site) -> Iterator[Store]:
    """A fresh store for the site, on a server that runs."""
    if not server_of_kind.answers():
        server_of_kind.start()
    store = store_on(server_of_kind)
    store.serve(site)
    yield store
    site.close()
