"""The stores that are measured: each at its standard port, or where the environment says."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import redis
import sqlalchemy as sa

from flask_jobs.drivers.database import open_engine

POSTGRESQL = os.environ.get("FLASK_JOBS_BENCH_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres")
MARIADB = os.environ.get("FLASK_JOBS_BENCH_MARIADB", "mariadb+pymysql://root@127.0.0.1:3306/")
REDIS = os.environ.get("FLASK_JOBS_BENCH_REDIS", "redis://127.0.0.1:6379/0")

NAME = f"flask_jobs_bench_{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where one measurement keeps its jobs: its URL or path, what the app's environment says of it, and how the store
    takes stock of what it holds, which it would sooner or later do by itself."""

    url: str
    environment: Mapping[str, str]
    take_stock: Callable[[], None] = lambda: None


@dataclass(frozen=True, slots=True)
class Store:
    """A store: its name, which version answers (None: none does), and places in it that are left empty again."""

    name: str
    version: Callable[[], str | None]
    opened: Callable[[Path], AbstractContextManager[Place]]


@contextmanager
def _in_file(folder: Path) -> Iterator[Place]:
    yield Place(
        str(folder / "bench.sqlite"), {"FLASK_JOBS_CONNECTIONS__database__url": f"sqlite:///{folder}/jobs.sqlite"}
    )


@contextmanager
def _in_database(server: str, drop: str, take_stock: Sequence[str] = ()) -> Iterator[Place]:
    engine = open_engine(server)
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {NAME}")
        try:
            url = engine.url.set(database=NAME)
            text = url.render_as_string(hide_password=False)
            plain = url.set(drivername=url.get_backend_name()).render_as_string(hide_password=False)
            yield Place(plain, {"FLASK_JOBS_CONNECTIONS__database__url": text}, lambda: _execute(text, take_stock))
        finally:
            connection.exec_driver_sql(drop)
    engine.dispose()


def _execute(url: str, statements: Sequence[str]) -> None:
    engine = open_engine(url)
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)
    engine.dispose()


@contextmanager
def _in_redis(_folder: Path) -> Iterator[Place]:
    """In an empty database of the server, for peers have keys of all names."""
    client, url = _claimed()
    settings = {"DEFAULT": "redis", "CONNECTIONS__redis__url": url}
    try:
        yield Place(url, {f"FLASK_JOBS_{key}": value for key, value in settings.items()})
    finally:
        client.flushdb()
        client.close()


def _claimed() -> tuple[redis.Redis, str]:
    """The last database that holds nothing. A key marks it, so that nobody else takes it for empty."""
    for number in range(15, 0, -1):
        url = urlsplit(REDIS)._replace(path=f"/{number}").geturl()
        client = redis.Redis.from_url(url)
        if not client.dbsize() and client.set(NAME, "claimed") and client.dbsize() == 1:
            return client, url
        client.delete(NAME)
        client.close()
    raise LookupError("No database from 1 to 15 of the Redis server is empty.")


def _database_version(server: str) -> str | None:
    engine = open_engine(server)
    try:
        with engine.connect() as connection:
            return ".".join(map(str, connection.dialect.server_version_info or ()))
    except sa.exc.DBAPIError:
        return None
    finally:
        engine.dispose()


def _redis_version() -> str | None:
    client = redis.Redis.from_url(REDIS)
    try:
        return str(client.info("server")["redis_version"])
    except redis.RedisError:
        return None
    finally:
        client.close()


STORES = (
    Store("Redis", _redis_version, _in_redis),
    Store(
        "PostgreSQL",
        lambda: _database_version(POSTGRESQL),
        lambda _: _in_database(POSTGRESQL, f"DROP DATABASE {NAME} WITH (FORCE)", ["ANALYZE"]),
    ),
    Store("SQLite", lambda: sqlite3.sqlite_version, _in_file),
    Store("MariaDB", lambda: _database_version(MARIADB), lambda _: _in_database(MARIADB, f"DROP DATABASE {NAME}")),
)
