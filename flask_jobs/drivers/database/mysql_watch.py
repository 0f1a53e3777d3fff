"""Waiting on MySQL and MariaDB, which give no word: one small question again and again, on a connection kept for it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import PoolProxiedConnection

from ... import clock

logger = logging.getLogger(__name__)

# What is new waits for half of it on average.
_PAUSE = 0.025

# Where the answer is always a whole look.
_LOOKING = 0.05

# How long to leave a server alone that did not let us in.
_AWAY = 2.0

_QUERY = 3
_PARTS = ("_execute_command", "_rfile", "_read_query_result")

# An answer of one row with one column is five packets, of which the last one says that this was all.
_END = b"\x05\x00\x00\x05\xfe"


# Those that a job of the table may be in.
_STATES = range(3)


class Asking:
    """Asks for what a look at the queues would show, and compares the answer with the one before.

    The usual answer is the same one, byte for byte. That is seen before the Python driver reads it, which takes more
    time than everything else. Its inner parts are needed for this. Where they are missing, and on a pool that is not
    ours, which its owner has counted the connections of, each time counts as news. Ours are `marked`.
    """

    def __init__(self, engine: sa.Engine, *, marked: str) -> None:
        self._engine = engine
        self._mark = marked
        self._lock = threading.Lock()
        self._pooled: PoolProxiedConnection | None = None
        self._connection: Any = None
        self._answers: dict[bytes, bytes] = {}
        self._news = 0
        self._try_at = 0.0

    def is_in_place(self) -> bool:
        """Always: what is lost is opened anew."""
        return True

    def count(self, queues: Sequence[str]) -> int | None:
        """How often an answer was another one than before, or none could be had."""
        with self._lock:
            if self._is_news(_question(tuple(queues))):
                self._news += 1
            return self._news

    def pause(self, limit: float) -> None:
        """Wait until it is worth asking again, for at most `limit` seconds."""
        time.sleep(min(_LOOKING if self._connection is None else _PAUSE, limit))

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._let_go()

    def _is_news(self, question: bytes) -> bool:
        if self._connection is None and clock.monotonic() >= self._try_at:
            self._open()
        if self._connection is None:
            return True
        try:
            return self._differs(question)
        except (OSError, ValueError, self._engine.dialect.loaded_dbapi.Error) as error:
            # Looking tells whoever waits that the server is away.
            logger.debug("the connection that asks is lost: %s", error)
            self._let_go()
            return True
        except BaseException:
            self._let_go()  # the rest of the answer is still to come
            raise

    def _differs(self, question: bytes) -> bool:
        self._connection._execute_command(_QUERY, question)
        answer = self._connection._rfile.peek()
        if answer == self._answers.get(question):
            self._connection._rfile.read(len(answer))
            return False
        self._connection._read_query_result()
        # One that has come in part could be taken for a whole one the next time.
        if answer[-9:-4] == _END:
            self._answers[question] = answer
        return True

    def _open(self) -> None:
        self._try_at = clock.monotonic() + _AWAY
        try:
            pooled = self._engine.raw_connection()
            connection: Any = pooled.driver_connection
            if self._mark not in pooled.info or not all(hasattr(connection, part) for part in _PARTS):
                pooled.close()
                self._try_at = float("inf")
                return
            pooled.detach()
            # Nothing that is read here holds a transaction open.
            connection.autocommit(True)
        except (sa.exc.SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error) as error:
            logger.debug("not asking for now: %s", error)
            return
        self._pooled, self._connection = pooled, connection

    def _let_go(self) -> None:
        pooled, self._pooled, self._connection = self._pooled, None, None
        self._answers.clear()
        if pooled is not None:
            with contextlib.suppress(self._engine.dialect.loaded_dbapi.Error, sa.exc.SQLAlchemyError, OSError):
                pooled.close()


@cache
def _question(queues: tuple[str, ...]) -> bytes:
    """What a look shows of these queues, as one text. Names of queues have been checked, and need no escapes."""
    parts = [part for queue in queues for part in (*_earliest(queue), _paused(queue))]
    shown = ", ".join(f"COALESCE(({part}), '-')" for part in parts)
    return f"SELECT CONCAT_WS(' ', {shown}) AS shown".encode()


def _earliest(queue: str) -> list[str]:
    return [f"SELECT MIN(at) FROM flask_jobs WHERE state = {state} AND queue = '{queue}'" for state in _STATES]


def _paused(queue: str) -> str:
    return f"SELECT COALESCE(until, 1e18) FROM flask_jobs_paused WHERE queue = '{queue}'"
