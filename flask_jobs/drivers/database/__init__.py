"""The database driver: SQLite now, one dialect away from PostgreSQL, MySQL and MariaDB."""

from .create import create
from .driver import DatabaseDriver
from .engines import BUSY_TIMEOUT, engine_beside, open_engine
from .schema import create_sql, metadata

__all__ = ["BUSY_TIMEOUT", "DatabaseDriver", "create", "create_sql", "engine_beside", "metadata", "open_engine"]
