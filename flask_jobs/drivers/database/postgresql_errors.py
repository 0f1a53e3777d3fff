"""What PostgreSQL's refusals mean for a job queue, and what to do about them."""

from __future__ import annotations

import sqlalchemy as sa

from ...errors import ConfigurationError, ConnectionLost, JobsError, SchemaMissing, Stored, StoreRefused
from .dialects.dialect import Overtaken

# The classes and codes that say that the session is over, or never was.
_GONE = ("08", "57P")

_OVERTAKEN = {"40001", "40P01"}
_MISSING = {"42P01", "42703", "3F000"}
_NOT_ALLOWED_IN = {"28000", "28P01", "3D000"}

_ADVICE = {
    "57014": "a statement took longer than its limit. Look for locks that are held long, and for a server that is busy",
    "55P03": "a lock was held by others for too long. Look for a transaction that is held open",
    "53100": "no space is left on its disk. Free some",
    "25006": "it is read-only. Let the url name the primary",
    "42501": "the role may not do that. Grant it SELECT, INSERT, UPDATE and DELETE on the flask_jobs tables",
}


def translate(error: BaseException, engine: sa.Engine, stored: Stored) -> JobsError | None:
    """The library's own error, or None where the statement itself is at fault."""
    where = engine.url.render_as_string()
    if isinstance(error, sa.exc.TimeoutError):
        return ConnectionLost(f"No connection to {where} became free in time; nothing was sent.", stored=Stored.NO)
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    module = engine.dialect.loaded_dbapi
    if not isinstance(cause, module.Error):
        return None
    code = str(getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or "")
    if code.startswith(_GONE) or (not code and isinstance(cause, module.OperationalError | module.InterfaceError)):
        return ConnectionLost(f"The connection to {where} failed: {_said(cause)}", stored=stored)
    return _refused(code, cause, where)


def _refused(code: str, cause: BaseException, where: str) -> JobsError | None:
    if code in _OVERTAKEN:
        return Overtaken(f"{where} gave up a transaction for others ({_said(cause)}); nothing was written.")
    if code in _MISSING:
        return SchemaMissing(
            f"The tables of flask_jobs are missing in {where}, or are of another version ({_said(cause)}). Make them "
            "with `flask jobs init-db`."
        )
    if code in _NOT_ALLOWED_IN:
        return ConfigurationError(f"{where} lets nobody in like that: {_said(cause)}")
    if code in _ADVICE:
        return StoreRefused(f"{where} refused: {_ADVICE[code]}; nothing was written.")
    # Resources (53), operators (57) and the server's own troubles (58, XX); anything else is our mistake.
    if code[:2] in ("53", "57", "58", "XX", "54", "22", "23", "25"):
        return StoreRefused(f"{where} refused a statement ({_said(cause)}); nothing was written.")
    return None


def _said(cause: BaseException) -> str:
    """The server's words, without the details, which may tell values."""
    diagnosis = getattr(cause, "diag", None)
    said = getattr(diagnosis, "message_primary", None) or str(cause)
    return str(said).strip().partition("\n")[0]
