"""One store of each kind behind a site, on a server that the test may stop: all by the same few verbs."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import redis
import sqlalchemy as sa

from flask_jobs.drivers.database import metadata, open_engine
from tests.database_servers import DatabaseServer
from tests.databases import MARIADB, POSTGRESQL, make_database, new_server, own_database, required_server
from tests.faults.on_databases.test_server_away import end_all_sessions
from tests.faults.workers import Site
from tests.processes import ServerProcess
from tests.servers import RedisServer, keys_of, own_prefix, required_redis

SERVERS = {"postgresql": POSTGRESQL, "mariadb": MARIADB}

# What may stay in Redis: what is remembered of ids and settlements, whose turn it is, and which queues there were.
_REMEMBERED = ("ended:", "turns", "queues", "failed:")


class Store(Protocol):
    """Where a site keeps its jobs."""

    server: ServerProcess | None

    def serve(self, site: Site) -> None:
        """Let the site keep its jobs here."""

    def end_sessions(self) -> None:
        """End all connections from the server's side."""

    def left_behind(self) -> set[str]:
        """What is still stored and is no memory of ids."""


class Tables:
    """A database of its own, or a file."""

    def __init__(self, url: sa.URL, server: ServerProcess | None = None) -> None:
        self.server = server
        self._url = url

    def serve(self, site: Site) -> None:
        site.connection["url"] = self._url.render_as_string(hide_password=False)

    def end_sessions(self) -> None:
        end_all_sessions(open_engine(self._url))

    def left_behind(self) -> set[str]:
        engine = open_engine(self._url)
        tables = [table for table in metadata.sorted_tables if not table.name.endswith(("_schema", "_ended"))]
        with engine.connect() as connection:
            found = {table.name for table in tables if connection.execute(sa.select(table).limit(1)).first()}
        engine.dispose()
        return found


class Keys:
    """A prefix of its own on a Redis server."""

    def __init__(self, url: str, prefix: str, server: ServerProcess | None = None) -> None:
        self.server = server
        self._url = url
        self._prefix = prefix

    def serve(self, site: Site) -> None:
        redis_connection = {"url": self._url, "prefix": self._prefix, **site.connection}
        site.config.update(JOBS_DEFAULT="redis", JOBS_CONNECTIONS={"redis": redis_connection})

    def end_sessions(self) -> None:
        with contextlib.closing(redis.Redis.from_url(self._url)) as client:
            client.client_kill_filter(_type="normal", skipme=True)

    def left_behind(self) -> set[str]:
        with contextlib.closing(redis.Redis.from_url(self._url)) as client:
            names = {key.partition("}:")[2] for key in keys_of(client, self._prefix)}
        return {name for name in names if not name.startswith(_REMEMBERED)}


@contextmanager
def common_store(kind: str, folder: Path) -> Iterator[Store]:
    """A store on the server that all tests share; for SQLite, a file."""
    name = f"flask_jobs_test_{secrets.token_hex(4)}"
    with ExitStack() as stack:
        match kind:
            case "sqlite":
                yield Tables(sa.make_url(f"sqlite:///{folder / 'jobs.sqlite'}"))
            case "redis":
                url = required_redis()
                yield Keys(url, stack.enter_context(own_prefix(url)))
            case _:
                yield Tables(stack.enter_context(own_database(required_server(SERVERS[kind]), name)))


@contextmanager
def own_server(kind: str, *settings: str) -> Iterator[ServerProcess]:
    """A server of the test's own, which keeps over a restart what it has accepted."""
    # Database servers run as a user who has to reach the folder.
    with tempfile.TemporaryDirectory(prefix="flask_jobs-") as name:
        folder = Path(name)
        if kind == "redis":
            options = [part for setting in settings for part in f"--{setting}".split("=")]
            # What is written without a flush survives the death of the server, if not of the host.
            keeping = ["--appendonly", "yes", "--appendfsync", "no", "--save", ""]
            server: ServerProcess = RedisServer(folder, *keeping, *options)
        else:
            server = new_server(SERVERS[kind], folder, *settings)
        server.start()
        try:
            yield server
        finally:
            server.kill()


def store_on(server: ServerProcess) -> Store:
    """A fresh store on a server of the test's own."""
    name = f"test_{secrets.token_hex(4)}"
    if isinstance(server, RedisServer):
        return Keys(server.url, name, server)
    assert isinstance(server, DatabaseServer)
    return Tables(make_database(server.url, name, lasting=True), server)
