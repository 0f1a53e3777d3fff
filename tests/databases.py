"""Database servers for tests, and databases on them that nobody else uses."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import sqlalchemy as sa

from flask_jobs.drivers.database import metadata, open_engine
from tests.database_servers import DatabaseServer, MariadbServer, PostgresqlServer
from tests.processes import ServerProcess, missing, shared
from tests.programs import STEPS

POSTGRESQL = "JOBS_TEST_POSTGRESQL"
MARIADB = "JOBS_TEST_MARIADB"

_STANDARD = {
    POSTGRESQL: ["postgresql://postgres@127.0.0.1:5432/postgres", f"postgresql://{getpass.getuser()}@/postgres"],
    MARIADB: ["mariadb://root@127.0.0.1:3306/"],
}


_NAMES = {POSTGRESQL: "PostgreSQL", MARIADB: "MariaDB"}
_OWN: dict[str, type[DatabaseServer]] = {POSTGRESQL: PostgresqlServer, MARIADB: MariadbServer}


@cache
def found_server(variable: str) -> tuple[sa.URL | None, str]:
    """The URL of the server, or why there is none.

    It is the one that the environment names, that at the standard port, or one of this run's own.
    """
    given, name = os.environ.get(variable), _NAMES[variable]
    why = f"no {name} server is installed; set {variable}"
    for candidate in [given] if given else _STANDARD[variable] if "port" in STEPS else []:
        url = sa.make_url(candidate)
        engine = open_engine(url)
        try:
            with engine.connect():
                return engine.url, ""
        except sa.exc.DBAPIError as error:
            said = str(error.orig).splitlines()[0]
            why = f"no server answers at {url.render_as_string()} ({said}), and none is installed; set {variable}"
        finally:
            engine.dispose()
    if given or not _OWN[variable].is_installed():
        return None, why
    return sa.make_url(shared(name, lambda folder: _start(variable, folder))), ""


def _start(variable: str, folder: Path) -> tuple[str, ServerProcess]:
    server = _OWN[variable](folder)
    server.start()
    return server.url.render_as_string(hide_password=False), server


def required_server(variable: str) -> sa.URL:
    """The server's URL; without one that answers the test is skipped, or fails where all servers must be."""
    url, why = found_server(variable)
    if url is None:
        missing(_NAMES[variable], why)
    return url


def new_server(variable: str, folder: Path, *settings: str) -> DatabaseServer:
    """A server that the test may stop and break, not yet started."""
    if not _OWN[variable].is_installed():
        missing(_NAMES[variable], f"no {_NAMES[variable]} server is installed that a test could stop")
    return _OWN[variable](folder, *settings)


@contextmanager
def own_database(server: sa.URL, name: str) -> Iterator[sa.URL]:
    """A database that is made for this and dropped in the end."""
    try:
        yield make_database(server, name)
    finally:
        _run(server, _dropping(server, name))


def make_database(server: sa.URL, name: str, *, lasting: bool = False) -> sa.URL:
    """A new database, in place of one of this name. If it is `lasting`, it keeps what it says when its server dies."""
    making = [text.format(name=name) for text in _MAKING[server.get_backend_name()]]
    _run(server, _dropping(server, name), *making)
    if lasting and server.get_backend_name() == "postgresql":
        _run(server, f"ALTER DATABASE {name} SET synchronous_commit = on")
    return open_engine(server).url.set(database=name)  # with the Python driver that serves it


def _dropping(server: sa.URL, name: str) -> str:
    return f"DROP DATABASE IF EXISTS {name}{' WITH (FORCE)' if server.get_backend_name() == 'postgresql' else ''}"


def _run(server: sa.URL, *statements: str) -> None:
    engine = open_engine(server)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


# The database's own defaults must play no part; and tests have no time for the disk.
_LATIN = ["CREATE DATABASE {name} CHARACTER SET latin1 COLLATE latin1_swedish_ci"]
_MAKING = {
    "postgresql": [
        "CREATE DATABASE {name}",
        "ALTER DATABASE {name} SET synchronous_commit = off",
        "ALTER DATABASE {name} SET default_transaction_isolation = serializable",
        "ALTER DATABASE {name} SET timezone = 'America/St_Johns'",
    ],
    "mysql": _LATIN,
    "mariadb": _LATIN,
}


class Databases:
    """A database on each server that is asked for, made then and dropped in the end, with engines that are kept."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._urls: dict[str, sa.URL] = {}
        self._engines: dict[tuple[object, ...], sa.Engine] = {}

    def __enter__(self) -> Databases:
        return self

    def __exit__(self, *_: object) -> None:
        for engine in self._engines.values():
            engine.dispose()
        self._stack.close()

    def url(self, server: str) -> sa.URL:
        """The database's URL."""
        if server not in self._urls:
            name = f"flask_jobs_test_{os.getpid()}"
            self._urls[server] = self._stack.enter_context(own_database(required_server(server), name))
        return self._urls[server]

    def __call__(
        self, server: str, opening: Callable[[sa.URL], sa.Engine], python_driver: str | None = None
    ) -> sa.Engine:
        """An engine for the database, opened by this function and kept open; with tables."""
        url = self.url(server)
        key = (server, opening, python_driver)
        if key not in self._engines:
            wanted = url if python_driver is None else url.set(drivername=python_driver)
            self._engines[key] = opening(wanted)
        return self._engines[key]


def an_apps_engine(url: sa.URL) -> sa.Engine:
    """An engine as an app makes it, which outlives the sessions that other tests end."""
    return sa.create_engine(url, pool_pre_ping=True)


def empty(engine: sa.Engine) -> None:
    """Delete what is in the tables of jobs."""
    with engine.begin() as connection:
        for table in metadata.sorted_tables:
            if not table.name.endswith("_schema"):
                connection.execute(sa.delete(table))
