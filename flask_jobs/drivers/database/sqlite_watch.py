"""Waiting on SQLite: the file's own change counter, asked a hundred and more times a second at next to no cost."""

from __future__ import annotations

import sqlite3
import threading

import sqlalchemy as sa


class FileWatch:
    """Watches one database file by `PRAGMA data_version`, on a connection that never writes.

    A connection sees only the commits of others in its counter, so this one is shared with nobody.
    """

    interval = 0.007

    def __init__(self, engine: sa.Engine) -> None:
        pooled = engine.raw_connection()
        raw = pooled.driver_connection
        pooled.detach()
        assert isinstance(raw, sqlite3.Connection)
        # A locked file is being written to just now; the next question comes soon enough.
        raw.execute("PRAGMA busy_timeout = 0")
        self._pooled = pooled
        self._raw = raw
        self._lock = threading.Lock()

    def count(self) -> int | None:
        """The counter of commits by others, or None while one is being written."""
        with self._lock:
            try:
                row = self._raw.execute("PRAGMA data_version").fetchone()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                    return None
                raise
            return int(row[0])

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._pooled.close()
