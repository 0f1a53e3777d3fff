"""The engines that the driver opens for itself."""

from __future__ import annotations

from functools import partial

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from .dialects import dialect_named
from .server_engines import open_mysql, open_postgresql
from .sqlite_files import OpenFile

BUSY_TIMEOUT = 5.0
"""Seconds that SQLite waits for another process's transaction to end."""


def open_engine(url: str | sa.URL, *, durable: bool = False) -> sa.Engine:
    """An engine for jobs alone, never shared with the app's own work.

    On SQLite it waits up to `BUSY_TIMEOUT` for a lock. What is committed survives the death of any process; with
    `durable` also a power cut, at the price of a disk flush for each commit. A server has a few
    seconds to let us in and to answer.
    """
    target = sa.make_url(url)
    match target.get_backend_name():
        case "sqlite":
            return _open_sqlite(target, durable=durable)
        case "postgresql":
            return open_postgresql(target)
        case "mysql" | "mariadb":
            return open_mysql(target)
        case other:
            dialect_named(other)  # refuses, before SQLAlchemy asks for a client that would be of no use
            return sa.create_engine(target)


def engine_beside(app_engine: sa.Engine, *, durable: bool = False) -> sa.Engine:
    """An engine of our own for the database of the app's engine."""
    return open_engine(app_engine.url, durable=durable)


def _open_sqlite(url: sa.URL, *, durable: bool) -> sa.Engine:
    # Every thread gets a connection; the file's lock is what they wait for. No transaction is left open in one that
    # is given back, so there is nothing to reset.
    engine = sa.create_engine(
        url,
        poolclass=sa.QueuePool,
        pool_size=0,
        pool_use_lifo=True,
        pool_reset_on_return=None,
        connect_args={"timeout": BUSY_TIMEOUT},
    )
    sa.event.listen(engine, "connect", _Settings(durable=durable).apply)
    sa.event.listen(engine, "checkout", _refuse_a_lost_file)
    return engine


# What is no text is shown as escapes: one damaged row must not keep all others from being read.
_text = partial(str, encoding="utf-8", errors="backslashreplace")

_FILE = "flask_jobs.file"


class _Settings:
    """What each of our SQLite connections is told when it is opened."""

    def __init__(self, *, durable: bool) -> None:
        self._synchronous = "FULL" if durable else "NORMAL"

    def apply(self, connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
        # Transactions are begun by name; Python's driver would otherwise begin its own kind.
        connection.isolation_level = None
        connection.text_factory = _text
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA synchronous = {self._synchronous}")
        cursor.close()
        entry.info[_FILE] = OpenFile.of(connection)


def _refuse_a_lost_file(connection: DBAPIConnection, entry: ConnectionPoolEntry, proxy: PoolProxiedConnection) -> None:
    """Let the pool open the file anew where it was deleted or replaced: what the old one is told reaches nobody."""
    if not entry.info[_FILE].is_in_place():
        raise sa.exc.DisconnectionError
