"""Waiting on PostgreSQL: its word that a queue was written to, and a look now and then beneath it."""

from __future__ import annotations

import contextlib
import logging
import select
import threading
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import PoolProxiedConnection

from ... import clock

logger = logging.getLogger(__name__)

# For being told to stop.
_RESTING = 0.05

# Beneath the server's word, for what it does not tell: a lost word, a proxy that passes none on.
_LOOKING = 1.0

# How long to leave a server alone that did not let us listen.
_AWAY = 2.0


class Listening:
    """Listens on a connection of its own, which it opens again by itself when it is lost."""

    def __init__(self, engine: sa.Engine, channel: str) -> None:
        self._channel = channel
        self._engine = engine
        self._lock = threading.Lock()
        self._pooled: PoolProxiedConnection | None = None
        self._connection: Any = None
        self._told: Counter[str] = Counter()
        self._missed = 0
        self._try_at = 0.0

    def is_in_place(self) -> bool:
        """Always: what is lost is opened anew."""
        return True

    def count(self, queues: Sequence[str]) -> int | None:
        """How often these queues were told of, with what may have been missed, and a step each second."""
        with self._lock:
            self._listen()
            self._take_in()
            looks = int(clock.monotonic() / _LOOKING)
            return self._missed + looks + sum(self._told[queue] for queue in queues)

    def pause(self, limit: float) -> None:
        """Wait for the server's word, for at most `limit` seconds."""
        connection = self._connection
        left = min(_RESTING, limit)
        if connection is None:
            time.sleep(left)
            return
        try:
            # Rounded up: poll() takes whole milliseconds, and none at all would make this a busy loop.
            _readable(connection, int(left * 1_000) + 1)
        except (OSError, ValueError, sa.exc.SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error):
            time.sleep(left)  # it was closed meanwhile; the next count opens another

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._let_go()

    def _listen(self) -> None:
        if self._connection is not None or clock.monotonic() < self._try_at:
            return
        try:
            pooled = self._engine.raw_connection()
            self._pooled, self._connection = pooled, pooled.driver_connection
            pooled.detach()
            self._connection.autocommit = True
            self._connection.cursor().execute(f"LISTEN {self._channel}")
        except (sa.exc.SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error) as error:
            # Looking tells whoever waits that the server is away; without its word, it is only less prompt.
            logger.debug("not listening for now: %s", error)
            self._let_go()
            self._try_at = clock.monotonic() + _AWAY
        # What was told before is lost.
        self._missed += 1

    def _take_in(self) -> None:
        """Take in what the server has told, without waiting for more."""
        if self._connection is None:
            return
        try:
            if _readable(self._connection, 0):
                self._told.update(_payloads(self._connection))
        except (OSError, ValueError, self._engine.dialect.loaded_dbapi.Error) as error:
            logger.debug("the listening connection is lost: %s", error)
            self._let_go()
            self._missed += 1

    def _let_go(self) -> None:
        pooled, self._pooled, self._connection = self._pooled, None, None
        if pooled is not None:
            with contextlib.suppress(self._engine.dialect.loaded_dbapi.Error, sa.exc.SQLAlchemyError):
                pooled.close()


def _readable(raw: Any, milliseconds: int) -> bool:
    poll = select.poll()
    poll.register(raw.fileno(), select.POLLIN)
    return bool(poll.poll(milliseconds))


def _payloads(raw: Any) -> list[str]:
    if hasattr(raw, "poll"):  # psycopg2
        raw.poll()
        told, raw.notifies[:] = [notification.payload for notification in raw.notifies], []
        return told
    raw.pgconn.consume_input()
    told = []
    while (notification := raw.pgconn.notifies()) is not None:
        told.append(notification.extra.decode())
    return told
