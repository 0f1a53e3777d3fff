"""All that differs between the database servers: clock, locks, inserts that may meet a duplicate, types, waiting.

A new server is one more `Dialect` in a module here and a line in `dialect_of`.
"""

from __future__ import annotations

import sqlalchemy as sa

from ....errors import ConfigurationError
from .dialect import Alone, Dialect, Overtaken, Select, Watch
from .mysql import Mysql
from .postgresql import Postgresql
from .sqlite import Sqlite
from .types import LONG_TEXT, SEQUENCE, TABLE_OPTIONS

_KNOWN: dict[str, type[Dialect]] = {"sqlite": Sqlite, "postgresql": Postgresql, "mysql": Mysql, "mariadb": Mysql}


def dialect_named(name: str) -> Dialect:
    """The dialect for the server that SQLAlchemy calls so, or `ConfigurationError` if there is none."""
    if name in _KNOWN:
        return _KNOWN[name]()
    raise ConfigurationError(
        f"The database driver cannot keep jobs on {name!r}. It knows: {', '.join(sorted(_KNOWN))}. "
        "Keep them elsewhere: JOBS_CONNECTIONS = {'database': {'url': 'sqlite:////path/to/jobs.db'}}, "
        "or JOBS_DEFAULT = 'redis'."
    )


def dialect_of(engine: sa.Engine) -> Dialect:
    """The dialect for the engine's server."""
    return dialect_named(engine.dialect.name)


__all__ = [
    "LONG_TEXT",
    "SEQUENCE",
    "TABLE_OPTIONS",
    "Alone",
    "Dialect",
    "Mysql",
    "Overtaken",
    "Postgresql",
    "Select",
    "Sqlite",
    "Watch",
    "dialect_named",
    "dialect_of",
]
