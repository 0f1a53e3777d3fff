"""What PostgreSQL's refusals mean for a job queue, and what to do about them."""

from __future__ import annotations

import sqlalchemy as sa

from ...errors import JobsError, Stored
from .server_errors import Refusals, cause_of, lost_connection, refused_statement, without_connection

# The classes and codes that say that the session is over, or never was.
_GONE = ("08", "57P")

_OVERTAKEN = {"40001", "40P01"}
_MISSING = {"42P01", "42703", "3F000"}
_NOT_ALLOWED_IN = {"28000", "28P01", "3D000"}
_NOT_ALLOWED_TO = {"42501"}

NAME_TAKEN = "42P05"
"""A statement was prepared under this name before."""

NOT_AS_PREPARED = {"26000", "0A000"}
"""No statement of this name, or the table is not any more as it was planned for."""

_ADVICE = {
    "57014": "a statement took longer than its limit. Look for locks that are held long, and for a server that is busy",
    "55P03": "a lock was held by others for too long. Look for a transaction that is held open",
    "53100": "no space is left on its disk. Free some",
    "25006": "it is read-only. Let the url name the primary",
}


_REFUSALS = Refusals(
    overtaken=_OVERTAKEN,
    missing=_MISSING,
    not_allowed_in=_NOT_ALLOWED_IN,
    not_allowed_to=_NOT_ALLOWED_TO,
    advice=_ADVICE,
)


def translate(error: BaseException, engine: sa.Engine, stored: Stored) -> JobsError | None:
    """The library's own error, or None where the statement itself is at fault."""
    where = engine.url.render_as_string()
    without = without_connection(error, where)
    if without is not None:
        return without
    cause = cause_of(error)
    module = engine.dialect.loaded_dbapi
    if not isinstance(cause, module.Error):
        return None
    code = code_of(cause)
    if code.startswith(_GONE) or (not code and isinstance(cause, module.OperationalError | module.InterfaceError)):
        return lost_connection(_said(cause), where, stored)
    return _refused(code, cause, where)


def code_of(error: BaseException) -> str:
    """The server's code of an error of its Python driver, empty if it has none."""
    return str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "")


def _refused(code: str, cause: BaseException, where: str) -> JobsError | None:
    known = _REFUSALS.known(code, _said(cause), where)
    if known is not None:
        return known
    # Resources (53), operators (57) and the server's own troubles (58, XX); anything else is our mistake.
    if code[:2] in ("53", "57", "58", "XX", "54", "22", "23", "25"):
        return refused_statement(_said(cause), where)
    return None


def _said(cause: BaseException) -> str:
    """The server's words, without the details, which may tell values."""
    diagnosis = getattr(cause, "diag", None)
    said = getattr(diagnosis, "message_primary", None) or str(cause)
    return str(said).strip().partition("\n")[0]
