"""SQLite: a file that many processes write to, one at a time."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite
from sqlalchemy.pool import PoolProxiedConnection

from ....errors import ConfigurationError, JobsError, Stored
from .. import sqlite_errors
from ..sqlite_watch import FileWatch
from ..text import Ran
from .dialect import Alone, Dialect, Select, Unique, Watch, columns

logger = logging.getLogger(__name__)


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

    def begin(self, connection: PoolProxiedConnection, *, lasting: bool = True) -> None:
        # A read that turns into a write fails at once when somebody wrote in between, whatever the busy timeout.
        connection.cursor().execute("BEGIN IMMEDIATE")

    def commit(self, connection: PoolProxiedConnection) -> None:
        connection.commit()

    def rollback(self, connection: PoolProxiedConnection) -> None:
        connection.rollback()

    def run_alone(self, connection: PoolProxiedConnection, alone: Alone, module: Any) -> Ran:
        # A statement that writes first takes the write lock at once, and waits for it, as BEGIN IMMEDIATE does. On
        # a connection of the app's Python's driver has begun a transaction for it.
        raw = connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        try:
            cursor = raw.execute(alone.statement.text, alone.parameters)
            if raw.in_transaction:
                raw.commit()
        except sqlite3.Error:
            raw.rollback()
            raise
        return Ran(cursor.rowcount)

    @contextmanager
    def creating(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        with engine.connect() as connection:
            self.begin(connection.connection)
            yield connection
            connection.commit()

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

    def insert_new(self, table: sa.Table, names: Sequence[str], rows: Select, *, unique: Unique) -> sa.Insert:
        insert = sqlite.insert(table).from_select(list(names), rows)
        return insert.on_conflict_do_nothing(index_elements=list(columns(unique)))

    def insert_unless_taken(self, table: sa.Table, names: Sequence[str], rows: Select) -> sa.Insert:
        return sqlite.insert(table).from_select(list(names), rows).on_conflict_do_nothing()

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

    def watch(self, engine: sa.Engine, *, notify: bool) -> Watch:
        return FileWatch(engine)

    def translate(self, error: BaseException, engine: sa.Engine, stored: Stored) -> JobsError | None:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        if not isinstance(cause, sqlite3.Error):
            return None
        return sqlite_errors.translate(cause, engine.url.database or "")
