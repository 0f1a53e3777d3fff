"""The stores that are measured: each at its standard port, or where the environment says."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
import sqlalchemy as sa

from flask_jobs.drivers.database import open_engine

from .bare import Bare, BareMysql, BarePostgresql, BareRedis, BareSqlite

POSTGRESQL = os.environ.get("FLASK_JOBS_BENCH_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres")
MARIADB = os.environ.get("FLASK_JOBS_BENCH_MARIADB", "mariadb+pymysql://root@127.0.0.1:3306/")
REDIS = os.environ.get("FLASK_JOBS_BENCH_REDIS", "redis://127.0.0.1:6379/0")

NAME = f"flask_jobs_bench_{os.getpid()}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where one run keeps its jobs: what the app's environment says, and the bare queue beside."""

    environment: Mapping[str, str]
    bare: Callable[[], Bare]


@dataclass(frozen=True, slots=True)
class Store:
    """A store: its name, which version answers (None: none does), and places in it that are left empty again."""

    name: str
    version: Callable[[], str | None]
    opened: Callable[[Path], AbstractContextManager[Place]]


@contextmanager
def _in_file(folder: Path) -> Iterator[Place]:
    yield Place({}, lambda: BareSqlite(folder / "bare.sqlite"))


@contextmanager
def _in_database(server: str, bare: Callable[[sa.URL], Bare]) -> Iterator[Place]:
    engine = open_engine(server)
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {NAME}")
        try:
            url = engine.url.set(database=NAME)
            text = url.render_as_string(hide_password=False)
            yield Place({"FLASK_JOBS_CONNECTIONS__database__url": text}, lambda: bare(url))
        finally:
            connection.exec_driver_sql(f"DROP DATABASE {NAME}")
    engine.dispose()


@contextmanager
def _in_redis(_folder: Path) -> Iterator[Place]:
    settings = {"DEFAULT": "redis", "CONNECTIONS__redis__url": REDIS, "CONNECTIONS__redis__prefix": NAME}
    client = redis.Redis.from_url(REDIS)
    try:
        yield Place({f"FLASK_JOBS_{key}": value for key, value in settings.items()}, lambda: BareRedis(REDIS, NAME))
    finally:
        for key in client.scan_iter(match=f"{{{NAME}:*", count=1_000):
            client.unlink(key)
        client.close()


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
    Store("SQLite", lambda: sqlite3.sqlite_version, _in_file),
    Store("PostgreSQL", lambda: _database_version(POSTGRESQL), lambda _: _in_database(POSTGRESQL, BarePostgresql)),
    Store("MariaDB", lambda: _database_version(MARIADB), lambda _: _in_database(MARIADB, BareMysql)),
    Store("Redis", _redis_version, _in_redis),
)
