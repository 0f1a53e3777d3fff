"""MySQL 8 and MariaDB 10.6 or later, through PyMySQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.pool import PoolProxiedConnection

from ....errors import ConfigurationError, ConnectionLost, JobsError, Stored
from .. import mysql_errors
from ..mysql_watch import Asking
from ..text import Ran
from .dialect import Alone, Dialect, Overtaken, Select, Unique, Watch, columns

PREPARED = "flask_jobs"
"""Marks a connection of the pool whose session has been told all that ours are told."""

READ_COMMITTED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"

_LOCK_SECONDS = 10


class Mysql(Dialect):
    """Transactions of ours read what is committed: no gap of an index is ever locked, which is where deadlocks grow."""

    reckons_first = False

    max_packet: int | None = None
    """The bytes of the largest statement that the server takes, once it has been asked."""

    # Reckoned from a time without a zone, so that the session's zone and its summer time play no part.
    clock = sa.literal_column("(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)", sa.Double)

    def refuse_unusable(self, engine: sa.Engine) -> None:
        """Only trying tells; see `try_out`."""

    def try_out(self, connection: sa.Connection) -> None:
        """A server that cannot skip what others hold would give a job to two workers, or make them all wait."""
        self.max_packet = connection.exec_driver_sql("SELECT @@max_allowed_packet").scalar()
        try:
            connection.exec_driver_sql("SELECT version FROM flask_jobs_schema LIMIT 1 FOR UPDATE SKIP LOCKED").all()
        except sa.exc.DBAPIError as error:
            own = mysql_errors.translate(error, connection.engine, Stored.NO)
            if isinstance(own, ConnectionLost | Overtaken):
                raise
            raise ConfigurationError(
                f"{connection.engine.url.render_as_string()} cannot keep jobs: it does not know FOR UPDATE SKIP "
                "LOCKED on InnoDB tables. That takes MySQL 8.0.1, MariaDB 10.6, or later."
            ) from error

    def begin(self, connection: PoolProxiedConnection, *, lasting: bool = True) -> None:
        # A transaction begins by itself with its first statement.
        if PREPARED not in connection.info:
            connection.cursor().execute(READ_COMMITTED)

    def commit(self, connection: PoolProxiedConnection) -> None:
        connection.commit()

    def rollback(self, connection: PoolProxiedConnection) -> None:
        connection.rollback()

    def run_alone(self, connection: PoolProxiedConnection, alone: Alone, module: Any) -> Ran:
        texts = [each.text for each in (*alone.before, alone.statement)]
        cursor: Any = connection.cursor()
        try:
            if PREPARED in connection.info:
                return _together(cursor, texts, alone.parameters)
            self.begin(connection, lasting=alone.lasting)
            for text in texts:
                cursor.execute(text, alone.parameters)
            connection.commit()
        except module.Error:
            self.rollback(connection)
            raise
        return Ran(cursor.rowcount)

    def end_reading(self, connection: PoolProxiedConnection) -> None:
        # Reading, too, has begun a transaction, and one that stays open keeps tables from being altered.
        connection.rollback()

    @contextmanager
    def creating(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"SELECT GET_LOCK('flask_jobs', {_LOCK_SECONDS})").all()
            try:
                yield connection
                connection.commit()
            finally:
                if not connection.invalidated:
                    connection.exec_driver_sql("SELECT RELEASE_LOCK('flask_jobs')").all()

    def current(self, select: Select) -> Select:
        return select.with_for_update(read=True)

    def joined(self, first: sa.ColumnElement[Any], *others: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
        return sa.func.concat(first, *others)

    def insert_new(self, table: sa.Table, names: Sequence[str], rows: Select, *, unique: Unique) -> sa.Insert:
        insert = mysql.insert(table).from_select(list(names), rows)
        column = columns(unique)[0]
        return insert.on_duplicate_key_update({column.name: column})

    def insert_unless_taken(self, table: sa.Table, names: Sequence[str], rows: Select) -> sa.Insert:
        return sa.insert(table).from_select(list(names), rows)

    def is_duplicate(self, error: BaseException) -> bool:
        return mysql_errors.number(error) == mysql_errors.DUPLICATE

    def watch(self, engine: sa.Engine, *, notify: bool) -> Watch:
        return Asking(engine, marked=PREPARED)

    def translate(self, error: BaseException, engine: sa.Engine, stored: Stored) -> JobsError | None:
        return mysql_errors.translate(error, engine, stored)


def _together(cursor: Any, texts: Sequence[str], parameters: Any) -> Ran:
    """Run them and commit in one round trip; the server stops at the first one that fails."""
    cursor.execute("; ".join([*texts, "COMMIT"]), parameters)
    for _ in texts[1:]:
        cursor.nextset()
    ran = Ran(cursor.rowcount)
    cursor.nextset()
    return ran
