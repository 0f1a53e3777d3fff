"""Which SQL statements only read. Pure; knows nothing of sessions."""

from __future__ import annotations

import re

from sqlalchemy.engine.interfaces import ExecutionContext
from sqlalchemy.sql.expression import ClauseElement, GenerativeSelect, UpdateBase
from sqlalchemy.sql.visitors import iterate

# Savepoints and BEGIN frame a transaction and say nothing of what is in it.
_HARMLESS = re.compile(
    r"(?:\s|\(|--[^\n]*\n|/\*.*?\*/)*(?:SELECT|SAVEPOINT|RELEASE|ROLLBACK\s+TO|BEGIN)\b",
    re.IGNORECASE | re.DOTALL,
)
_WITH = re.compile(r"(?:\s|\()*WITH\b", re.IGNORECASE)
_LOCKING = re.compile(
    r"\bFOR\s+(?:NO\s+KEY\s+|KEY\s+)?(?:UPDATE|SHARE)\b|\bLOCK\s+IN\s+SHARE\s+MODE\b",
    re.IGNORECASE,
)


def only_reads(statement: str, context: ExecutionContext | None) -> bool:
    """Whether the statement is a plain SELECT: one that changes nothing and asks for no lock.

    What was built with SQLAlchemy is judged by its structure, anything else by how its text begins.
    """
    compiled = context.compiled if context is not None else None
    element = compiled.statement if compiled is not None else None
    if isinstance(element, GenerativeSelect):
        return not _locks(element, statement) and not _changes(element, statement)
    return _HARMLESS.match(statement) is not None and _LOCKING.search(statement) is None


def _locks(select: GenerativeSelect, statement: str) -> bool:
    # SQLite compiles FOR UPDATE to nothing, yet the code that asks for it means to write.
    return select._for_update_arg is not None or (" FOR " in statement and _LOCKING.search(statement) is not None)


def _changes(select: ClauseElement, statement: str) -> bool:
    # Only a common table expression can hide an INSERT, UPDATE or DELETE in a SELECT.
    return _WITH.match(statement) is not None and any(isinstance(part, UpdateBase) for part in iterate(select))
