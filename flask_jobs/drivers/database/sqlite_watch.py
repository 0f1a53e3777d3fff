"""Waiting on SQLite: the file's own counter of commits, asked when the kernel says so, and now and then anyway."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Sequence

import sqlalchemy as sa

from .file_events import FileEvents
from .sqlite_errors import is_locked
from .sqlite_files import OpenFile

# Without word from the kernel, the counter itself is polled. A short sleep is prompt, a long one idle.
_POLLING = 0.012

# With it, this is for file systems that do not tell, and for being told to stop.
_RESTING = 0.05

# The kernel tells of a write before the commit is complete; so for a moment the counter is asked again and again.
_SETTLING = 0.002
_SETTLING_TURNS = 5


class FileWatch:
    """Watches one database file by `PRAGMA data_version`, on a connection that never writes.

    A connection sees only the commits of others in its counter, so this one is shared with nobody.
    """

    def __init__(self, engine: sa.Engine) -> None:
        pooled = engine.raw_connection()
        raw = pooled.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        pooled.detach()
        # A locked file is being written to just now; the next question comes soon enough.
        raw.execute("PRAGMA busy_timeout = 0")
        self._pooled = pooled
        self._file = OpenFile.of(pooled)
        self._raw = raw
        self._lock = threading.Lock()
        self._unsettled = 0
        self.count()
        self._events = self._file_events()

    def is_in_place(self) -> bool:
        """Whether the file is still the one that others open."""
        return self._file.is_in_place()

    def count(self, queues: Sequence[str] = ()) -> int | None:
        """The counter of commits by others, or None while one is being written."""
        with self._lock:
            try:
                row = self._raw.execute("PRAGMA data_version").fetchone()
            except sqlite3.OperationalError as error:
                if is_locked(error):
                    self._unsettled = _SETTLING_TURNS
                    return None
                raise
            return int(row[0])

    def pause(self, limit: float) -> None:
        """Wait until it is worth asking again, for at most `limit` seconds."""
        if self._events is None:
            time.sleep(min(_POLLING, limit))
            return
        if self._unsettled:
            self._unsettled -= 1
            time.sleep(min(_SETTLING, limit))
        elif self._events.wait(min(_RESTING, limit)):
            self._unsettled = _SETTLING_TURNS

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._pooled.close()
            if self._events is not None:
                self._events.close()

    def _file_events(self) -> FileEvents | None:
        file = self._raw.execute("PRAGMA database_list").fetchone()[2]
        try:
            return FileEvents([file, f"{file}-wal"])
        except OSError:
            return None
