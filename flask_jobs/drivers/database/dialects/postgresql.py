"""PostgreSQL, through psycopg or psycopg2. Nothing is assumed of a session beyond its transaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql
from sqlalchemy.pool import PoolProxiedConnection

from ....errors import JobsError, Stored
from .. import postgresql_errors
from ..polling import Polling
from ..postgresql_limit import Limit
from ..postgresql_message import sent
from ..postgresql_prepared import Prepared
from ..postgresql_watch import Listening
from ..text import Ran, Statement
from .dialect import Alone, Dialect, Select, Unique, Watch, columns

CHANNEL = "flask_jobs"
"""The channel of a database on which the names of queues are told that were written to."""

STATEMENT_SECONDS = 10
"""How long the server works on one statement of ours, waiting for locks included."""

_LIMITS = f"SET LOCAL statement_timeout = {STATEMENT_SECONDS * 1_000}"

# Each statement has an index that serves it. Statistics that are missing or old must not talk the planner out of it.
_INDEXES = "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off"
_UNFLUSHED = "SET LOCAL synchronous_commit = off"

# Makers of tables come one at a time; the number is ours alone and otherwise means nothing.
_LOCK_FOR_TABLES = "SELECT pg_advisory_xact_lock(7102514736281951)"


def opening(*, lasting: bool) -> str:
    """What a transaction of ours begins with, whatever the server's and the session's defaults."""
    settings = ["SET TRANSACTION ISOLATION LEVEL READ COMMITTED", _LIMITS, _INDEXES]
    return "; ".join(settings if lasting else [*settings, _UNFLUSHED])


_BEGIN = {lasting: f"BEGIN; {opening(lasting=lasting)}" for lasting in (True, False)}
_ONE_STATEMENT = {lasting: f"{opening(lasting=lasting)}; " for lasting in (True, False)}


_NOW = "extract(epoch FROM statement_timestamp())::float8"


def raw(text: str, *, local_clock: bool) -> Statement:
    """A statement of PostgreSQL's own, in which `{now}` stands for the present."""
    return Statement(" ".join(text.replace("{now}", "%(now)s::float8" if local_clock else _NOW).split()), None)


class Postgresql(Dialect):
    """Transactions are begun by name on connections that commit by themselves."""

    # The statement's own beginning: it stands still, so that an index can be read up to it.
    clock = sa.cast(sa.extract("epoch", sa.func.statement_timestamp()), sa.Double)

    def __init__(self) -> None:
        self._limit = Limit(STATEMENT_SECONDS + 2)
        self._prepared = Prepared()

    def refuse_unusable(self, engine: sa.Engine) -> None:
        """Every PostgreSQL that SQLAlchemy knows can keep jobs."""

    def given(self, instant: sa.BindParameter[float]) -> sa.ColumnElement[float]:
        # A bare number is an exact one.
        return sa.cast(instant, sa.Double)

    def begin(self, connection: PoolProxiedConnection, *, lasting: bool = True) -> None:
        connection.cursor().execute(_BEGIN[lasting])

    def commit(self, connection: PoolProxiedConnection) -> None:
        connection.cursor().execute("COMMIT")

    def rollback(self, connection: PoolProxiedConnection) -> None:
        connection.cursor().execute("ROLLBACK")

    def run_alone(self, connection: PoolProxiedConnection, alone: Alone, module: Any) -> Ran:
        # One round trip: settings and all go out as one message.
        begin = _ONE_STATEMENT[alone.lasting] + "".join(f"{each.text}; " for each in alone.before)

        def send(text: str) -> Ran:
            return sent(connection, begin + text, alone.parameters, module)

        ran = self._prepared.run(connection, alone.statement.text, send)
        return send(alone.statement.text) if ran is None else ran

    @contextmanager
    def lending(self, connection: PoolProxiedConnection) -> Iterator[None]:
        raw: Any = connection.driver_connection
        with self._limit.on(raw.fileno()), _committing_by_itself(raw):
            yield

    def go_on(self, connection: PoolProxiedConnection) -> None:
        raw: Any = connection.driver_connection
        self._limit.renew(raw.fileno())

    @contextmanager
    def creating(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        with engine.connect() as connection:
            connection = connection.execution_options(isolation_level="READ COMMITTED")
            with connection.begin():
                connection.exec_driver_sql(_LOCK_FOR_TABLES)
                yield connection

    def insert_new(self, table: sa.Table, names: Sequence[str], rows: Select, *, unique: Unique) -> sa.Insert:
        insert = postgresql.insert(table).from_select(list(names), rows)
        return insert.on_conflict_do_nothing(index_elements=list(columns(unique)))

    def insert_unless_taken(self, table: sa.Table, names: Sequence[str], rows: Select) -> sa.Insert:
        return postgresql.insert(table).from_select(list(names), rows).on_conflict_do_nothing()

    def watch(self, engine: sa.Engine, *, notify: bool) -> Watch:
        return Listening(engine, CHANNEL) if notify else Polling()

    def translate(self, error: BaseException, engine: sa.Engine, stored: Stored) -> JobsError | None:
        return postgresql_errors.translate(error, engine, stored)


@contextmanager
def _committing_by_itself(raw: Any) -> Iterator[None]:
    if raw.autocommit:
        yield
        return
    # What the app does to each of its connections may have begun a transaction.
    raw.commit()
    raw.autocommit = True
    try:
        yield
    finally:
        if not raw.closed:
            raw.autocommit = False
