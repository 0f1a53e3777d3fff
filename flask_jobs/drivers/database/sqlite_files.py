"""Which file a SQLite connection has open. One that was deleted or replaced is written to all the same, unseen."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sqlalchemy.engine.interfaces import DBAPIConnection


@dataclass(frozen=True, slots=True)
class OpenFile:
    """The file behind a connection, by its path and what it is on its disk. In memory there is no path."""

    path: str
    identity: tuple[int, int] | None

    @classmethod
    def of(cls, connection: DBAPIConnection) -> OpenFile:
        """The file that this connection has just opened."""
        cursor = connection.cursor()
        cursor.execute("PRAGMA database_list")
        path = str(cursor.fetchall()[0][2])
        cursor.close()
        return cls(path, _identity(path))

    def is_in_place(self) -> bool:
        """Whether whoever opens the path now opens the same file."""
        return _identity(self.path) == self.identity


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
