"""Statements that a PostgreSQL session is told once, and runs by name ever after, with the plan of the first time.

Only sessions of our own are told any. A pool of connections before the server may give every transaction another
session, in which the name is unknown; then all goes on without names. A name is made of its text, so that it never
stands for another one, whoever has told it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from . import postgresql_errors as errors
from .text import Ran

_TOLD = "flask_jobs.prepared"

_PARAMETER = re.compile(r"%\((\w+)\)s")

# The values have no part in the plan: the server would plan five times more to find that out.
_AS_PLANNED = "SET LOCAL plan_cache_mode = force_generic_plan; "


def own_session(_connection: DBAPIConnection, entry: ConnectionPoolEntry) -> None:
    """Note of a new connection that it is ours alone, so that it may be told statements."""
    entry.info[_TOLD] = set()


class Prepared:
    """Runs statements by name. A session that was expected to know one and does not ends that for good."""

    def __init__(self) -> None:
        self._is_of_use = True

    def run(self, connection: PoolProxiedConnection, text: str, send: Callable[[str], Ran]) -> Ran | None:
        """Send what runs the statement, and what it is before that if need be; None if it must be sent as it is."""
        told: set[str] | None = connection.info.get(_TOLD)
        if told is None or not self._is_of_use:
            return None
        named = _named(text)
        try:
            ran = send(_AS_PLANNED + (named.running if named.name in told else named.telling + named.running))
        except Exception as error:  # the class is the Python driver's own; nothing was written
            code = errors.code_of(error)
            if code == errors.NAME_TAKEN and named.name not in told:
                # It was told before, amid a transaction that failed after that.
                told.add(named.name)
                return self.run(connection, text, send)
            if code not in errors.NOT_AS_PREPARED:
                raise
            self._is_of_use = False
            return None
        told.add(named.name)
        return ran


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    telling: str
    running: str


@lru_cache(maxsize=64)
def _named(text: str) -> _Named:
    name = f"flask_jobs_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    parameters = list(dict.fromkeys(_PARAMETER.findall(text)))
    numbered = _PARAMETER.sub(lambda found: f"${parameters.index(found[1]) + 1}", text)
    given = ", ".join(f"%({parameter})s" for parameter in parameters)
    return _Named(name, f"PREPARE {name} AS {numbered}; ", f"EXECUTE {name} ({given})")
