"""All that differs between the database servers: clock, locks, inserts that may meet a duplicate, types, waiting.

A new server is one more `Dialect` here and a line in `dialect_named`.
"""

from __future__ import annotations

import logging
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.engine.interfaces import DBAPIConnection

from ...errors import ConfigurationError, JobsError
from . import sqlite_errors
from .sqlite_watch import FileWatch

logger = logging.getLogger(__name__)

Select = sa.Select[Any]

# SQLite gives out row numbers only to a column of exactly this type.
SEQUENCE = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# MySQL's TEXT ends at 64 kB, and its usual collations take A for a.
_MYSQL_LONG = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
LONG_TEXT = sa.Text().with_variant(_MYSQL_LONG, "mysql", "mariadb")

TABLE_OPTIONS: Mapping[str, Any] = {
    f"{server}_{option}": value
    for server in ("mysql", "mariadb")
    for option, value in {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}.items()
}


class Watch(Protocol):
    """Tells cheaply whether anything has been written. Safe to ask from several threads."""

    def is_in_place(self) -> bool:
        """Whether it still watches what is opened anew."""

    def count(self) -> int | None:
        """A number that differs from the one before if anything was written since; None if it cannot be told now."""

    def pause(self, limit: float) -> None:
        """Wait until it is worth asking again, for at most `limit` seconds."""

    def close(self) -> None:
        """Let go of what watching holds."""


class Dialect(ABC):
    """One kind of database server."""

    makes_tables: ClassVar[bool]
    """Whether missing tables are made on first use, rather than by `flask jobs init-db` alone."""

    clock: ClassVar[sa.ColumnElement[float]]
    """The server's own present in epoch seconds, as an expression."""

    @abstractmethod
    def refuse_unusable(self, engine: sa.Engine) -> None:
        """Raise `ConfigurationError` if no queue can live in this database."""

    @abstractmethod
    def begin(self, connection: DBAPIConnection) -> None:
        """Begin a transaction that reads before it writes and must not be overtaken in between."""

    @abstractmethod
    def begin_within(self, connection: sa.Connection) -> None:
        """Make sure that what follows is part of a transaction of the app's connection, table creation included."""

    @abstractmethod
    def taking(self, select: Select) -> Select:
        """The rows, but for those that others are taking just now, held until the transaction ends."""

    @abstractmethod
    def holding(self, select: Select) -> Select:
        """The rows, after others have let go of them, held until the transaction ends."""

    @abstractmethod
    def insert_new(self, table: sa.Table, names: Sequence[str], rows: Select, *, unique: sa.Column[str]) -> sa.Insert:
        """An insert of the rows, leaving out those whose `unique` value is in the table already."""

    @abstractmethod
    def make_ready(self, connection: sa.Connection, *, wal: bool) -> None:
        """Set what stays set in the database itself."""

    @abstractmethod
    def watch(self, engine: sa.Engine) -> Watch:
        """What `wait` asks between two looks at the tables."""

    @abstractmethod
    def translate(self, error: BaseException, engine: sa.Engine) -> JobsError | None:
        """The library's own error for one of the server's, or None if it is no error of the server."""


class Sqlite(Dialect):
    """A file that many processes write to, one at a time."""

    makes_tables = True

    # julianday() is exact to a millisecond and stands still within one statement.
    clock = (sa.func.julianday(sa.literal_column("'now'"), type_=sa.Double) - sa.literal_column("2440587.5")) * (
        sa.literal_column("86400.0", sa.Double)
    )

    def refuse_unusable(self, engine: sa.Engine) -> None:
        """An in-memory database belongs to one connection, so that no worker could see its jobs."""
        url = engine.url
        file = url.database or ""
        if file in ("", ":memory:") or "mode=memory" in file or ":memory:" in file or url.query.get("mode") == "memory":
            raise ConfigurationError(
                "An in-memory SQLite database is seen by one connection alone, so no job can wait in it. In tests use "
                "the fake (`jobs.fake()`) or JOBS_DEFAULT = 'sync'; to keep jobs, give the connection a file: "
                "JOBS_CONNECTIONS = {'database': {'url': 'sqlite:////path/to/jobs.db'}}."
            )

    def begin(self, connection: DBAPIConnection) -> None:
        # A read that turns into a write fails at once when somebody wrote in between, whatever the busy timeout.
        connection.cursor().execute("BEGIN IMMEDIATE")

    def begin_within(self, connection: sa.Connection) -> None:
        raw = connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        # Python's driver begins a transaction before INSERT, but not before CREATE TABLE.
        if not raw.in_transaction:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    def taking(self, select: Select) -> Select:
        # BEGIN IMMEDIATE has locked the file.
        return select

    def holding(self, select: Select) -> Select:
        return select

    def insert_new(self, table: sa.Table, names: Sequence[str], rows: Select, *, unique: sa.Column[str]) -> sa.Insert:
        insert = sqlite.insert(table).from_select(list(names), rows)
        return insert.on_conflict_do_nothing(index_elements=[unique])

    def make_ready(self, connection: sa.Connection, *, wal: bool) -> None:
        if not wal:
            return
        try:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
        except sa.exc.OperationalError as error:
            if not sqlite_errors.is_locked(error.orig):
                raise
            # Changing the mode needs the file for itself. The queue works in every mode, if not as fast.
            logger.warning("%s is in use and keeps its journal mode for now", connection.engine.url.database)

    def watch(self, engine: sa.Engine) -> Watch:
        return FileWatch(engine)

    def translate(self, error: BaseException, engine: sa.Engine) -> JobsError | None:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        if not isinstance(cause, sqlite3.Error):
            return None
        return sqlite_errors.translate(cause, engine.url.database or "")


def dialect_named(server: str) -> Dialect:
    """The dialect for a server, by SQLAlchemy's name for it, or `ConfigurationError` if there is none."""
    match server:
        case "sqlite":
            return Sqlite()
        case other:
            raise ConfigurationError(
                f"The database driver cannot keep jobs on {other!r} yet. It knows: sqlite. Keep them in a file, "
                "JOBS_CONNECTIONS = {'database': {'url': 'sqlite:////path/to/jobs.sqlite'}}, or on Redis, "
                "JOBS_DEFAULT = 'redis'."
            )
