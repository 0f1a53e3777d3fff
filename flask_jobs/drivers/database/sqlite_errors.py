"""What SQLite's refusals mean for a job queue, and what to do about them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ...errors import ConfigurationError, ConnectionLost, JobsError, SchemaMissing, Stored, StoreRefused

NO_TABLES = "The tables of flask_jobs are missing in {file}. Make them with `flask jobs init-db`."


def is_locked(error: BaseException | None) -> bool:
    """Whether the file is in use by others just now."""
    return isinstance(error, sqlite3.OperationalError) and _code(error) == sqlite3.SQLITE_BUSY


def translate(error: sqlite3.Error, file: str) -> JobsError | None:
    """The library's own error, or None where the statement itself is at fault."""
    file = file.removeprefix("file:").partition("?")[0]
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreRefused(
                f"{file} stayed locked by another transaction for longer than the busy timeout; nothing was written. "
                "Look for one that is held open while something slow is done; if it is your own, commit it first."
            )
        case sqlite3.SQLITE_FULL:
            return StoreRefused(f"No space is left for {file}; nothing was written. Free space on its disk.")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StoreRefused(
                f"{file} is read-only; nothing was written. Let the process write to the file and to its directory, "
                f"{Path(file).parent}, where SQLite keeps its journal."
            )
        case sqlite3.SQLITE_CANTOPEN:
            return _cannot_open(file)
        case sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_CORRUPT:
            return StoreRefused(f"{file} is damaged or no SQLite database ({error}); nothing was written.")
        case sqlite3.SQLITE_IOERR:
            return ConnectionLost(f"Reading or writing {file} failed ({error}).", stored=Stored.UNKNOWN)
        case _:
            return _other(error, file)


def _code(error: sqlite3.Error) -> int:
    """The primary result code; errors of Python's own module have none."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def _cannot_open(file: str) -> JobsError:
    directory = Path(file).parent
    if not directory.is_dir():
        return ConfigurationError(
            f"{file} cannot be opened: there is no directory {directory}. Make it, or give the connection another url."
        )
    return StoreRefused(
        f"{file} cannot be opened; nothing was written. Let the process read and write the file and {directory}."
    )


def _other(error: sqlite3.Error, file: str) -> JobsError | None:
    if "no such table: flask_jobs" in str(error):
        return SchemaMissing(NO_TABLES.format(file=file))
    if "no such column" in str(error) or "has no column" in str(error):
        return SchemaMissing(
            f"The tables of flask_jobs in {file} are of another version ({error}). Make them anew with "
            "`flask jobs init-db`."
        )
    if isinstance(error, sqlite3.OperationalError | sqlite3.IntegrityError):
        return StoreRefused(f"{file} refused a statement ({error}); nothing was written.")
    return None
