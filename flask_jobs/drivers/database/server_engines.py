"""The engines that the driver opens on servers: none of their calls may hang, and no setting of the server's counts."""

from __future__ import annotations

import select
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from ... import clock
from ...errors import ConfigurationError
from .dialects.mysql import PREPARED
from .postgresql_prepared import own_session

CONNECT_TIMEOUT = 3
"""Seconds that a server has to let us in."""

ANSWER_TIMEOUT = 10
"""Seconds that a server has to answer."""

# A connection that was lost without a word on the way would be noticed only by the next statement.
_IDLE = 1.0

# What SQLAlchemy always asks MySQL for, and several statements in one message, so that they take one round trip.
_FOUND_ROWS, _MULTI_STATEMENTS = 1 << 1, 1 << 16

# What was used last is taken first, so that what is too many is left alone until the server or the network ends it.
_POOL: Mapping[str, Any] = {"pool_use_lifo": True, "pool_timeout": ANSWER_TIMEOUT, "pool_reset_on_return": None}

# Which Python drivers serve, the best first, and how each is installed.
_POSTGRESQL: Mapping[str, str] = {"psycopg": 'pip install "psycopg[binary]>=3.1"', "psycopg2": "pip install psycopg2"}
_MYSQL: Mapping[str, str] = {"pymysql": 'pip install "PyMySQL>=1.1"'}


def _with_driver(url: sa.URL, known: Mapping[str, str]) -> sa.URL:
    """The url with a Python driver that serves and is installed: the one it names, else the first there is."""
    named = url.drivername.partition("+")[2]
    wanted = {named: known[named]} if named in known else known
    for driver in wanted:
        try:
            candidate = url.set(drivername=f"{url.get_backend_name()}+{driver}")
            candidate.get_dialect().import_dbapi()
        except ImportError:
            continue
        return candidate
    install = next(iter(wanted.values()))
    raise ConfigurationError(
        f"{url.render_as_string()} needs a package that is not installed ({' or '.join(wanted)}): {install}"
    )


def open_postgresql(url: sa.URL) -> sa.Engine:
    """An engine for PostgreSQL."""
    url = _with_driver(url, _POSTGRESQL)
    arguments: dict[str, Any] = {
        "connect_timeout": CONNECT_TIMEOUT,
        "keepalives_idle": ANSWER_TIMEOUT,
        "keepalives_interval": 3,
        "keepalives_count": 3,
        "tcp_user_timeout": ANSWER_TIMEOUT * 1_000,
        "application_name": "flask_jobs",
    }
    if url.get_driver_name() == "psycopg":
        # Those names mean another statement in each session, and a pool of connections may change the session.
        arguments["prepare_threshold"] = None
    given = {key: value for key, value in arguments.items() if key not in url.query}
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", connect_args=given, **_POOL)
    sa.event.listen(engine, "connect", own_session)
    sa.event.listen(engine, "checkout", _refuse_what_has_ended)
    return engine


def open_mysql(url: sa.URL) -> sa.Engine:
    """An engine for MySQL or MariaDB."""
    url = _with_driver(url, _MYSQL)
    arguments: dict[str, Any] = {
        "connect_timeout": CONNECT_TIMEOUT,
        "read_timeout": ANSWER_TIMEOUT,
        "write_timeout": ANSWER_TIMEOUT,
        "charset": "utf8mb4",
    }
    given = {key: value for key, value in arguments.items() if key not in url.query}
    given["client_flag"] = int(str(url.query.get("client_flag", 0))) | _FOUND_ROWS | _MULTI_STATEMENTS
    engine = sa.create_engine(url, connect_args=given, **_POOL)
    sa.event.listen(engine, "connect", _prepare_session)
    sa.event.listen(engine, "checkout", _ping_idle)
    sa.event.listen(engine, "checkin", _note_use)  # codespell:ignore checkin
    return engine


_MYSQL_SESSION = (
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
    f"SET SESSION innodb_lock_wait_timeout = {ANSWER_TIMEOUT // 2}",
)


def _prepare_session(connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    for statement in _MYSQL_SESSION:
        cursor.execute(statement)
    cursor.close()
    entry.info[PREPARED] = clock.monotonic()


def _note_use(_connection: DBAPIConnection | None, entry: ConnectionPoolEntry) -> None:
    entry.info[PREPARED] = clock.monotonic()


def _ping_idle(connection: Any, entry: ConnectionPoolEntry, _proxy: PoolProxiedConnection) -> None:
    _refuse_closed(connection._sock)
    if clock.monotonic() - entry.info[PREPARED] < _IDLE:
        return
    try:
        connection.ping(reconnect=False)
    except Exception as error:  # whatever it says, this connection is of no use
        raise sa.exc.DisconnectionError from error


def _refuse_what_has_ended(connection: Any, _entry: ConnectionPoolEntry, _proxy: PoolProxiedConnection) -> None:
    _refuse_closed(connection)


def _refuse_closed(socket: Any) -> None:
    """A server that ends a session says so, and that is all an idle connection ever has to read."""
    poll = select.poll()
    try:
        poll.register(socket.fileno(), select.POLLIN)
    except Exception as error:  # whatever it says, this connection is of no use
        raise sa.exc.DisconnectionError from error
    if poll.poll(0):
        raise sa.exc.DisconnectionError
