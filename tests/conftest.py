from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.apps import KINDS, Shop
from tests.databases import Databases
from tests.processes import running_tests
from tests.ran_where import RanWhere

_run = ExitStack()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RanWhere())
    if not hasattr(config, "workerinput"):  # one of several processes shares the servers of the one that started it
        _run.enter_context(running_tests())


def pytest_unconfigure() -> None:
    _run.close()


@pytest.fixture
def open_shop(tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    shops: list[Shop] = []

    def open_(kind: str = "flask_sqlalchemy", **config: object) -> Shop:
        folder = tmp_path / f"shop{len(shops)}"
        folder.mkdir()
        shops.append(Shop(kind, folder, **config))
        return shops[-1]

    yield open_
    for shop in shops:
        shop.close()


@pytest.fixture
def jobs_shop(open_shop: Callable[..., Shop]) -> Iterator[Shop]:
    """A shop, within an app context."""
    shop = open_shop()
    with shop.context():
        yield shop


@pytest.fixture(params=KINDS)
def each_shop(request: pytest.FixtureRequest, open_shop: Callable[..., Shop]) -> Iterator[Shop]:
    """A shop on each kind of session, within an app context."""
    shop = open_shop(request.param)
    with shop.context():
        yield shop


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    """Databases of our own, one on each server that is asked for."""
    with Databases() as found:
        yield found
