"""What the refusals of MySQL and MariaDB mean for a job queue, and what to do about them."""

from __future__ import annotations

import sqlalchemy as sa

from ...errors import JobsError, Stored
from .server_errors import Refusals, cause_of, lost_connection, refused_statement, without_connection

DUPLICATE = 1062

# Deadlock, lock wait timeout, what MariaDB says of a row that changed under a snapshot, and of a deadlock or a timeout
# over the next number of a row.
_OVERTAKEN = {1213, 1205, 1020, 1467}

# No table, no column, no database object of that name; a database that is not there is another matter.
_MISSING = {1146, 1054}
_NOT_ALLOWED_IN = {1044, 1045, 1049, 1698}
_NOT_ALLOWED_TO = {1142}

# Shutting down, killed, aborted, too many connections; the client's own numbers begin at 2000.
_GONE = {1040, 1053, 1077, 1079, 1080, 1152, 1184, 1203, 1927, 3159, 4031}

_ADVICE = {
    1153: "a job is larger than max_allowed_packet. Make the server's setting larger, or the job smaller",
    1301: "a job is larger than max_allowed_packet. Make the server's setting larger, or the job smaller",
    1021: "no space is left on its disk. Free some",
    1114: "no space is left for the table. Free some",
    1290: "it is read-only. Let the url name the primary",
    1836: "it is read-only. Let the url name the primary",
    3024: "a statement took longer than its limit. Look for locks that are held long, and for a server that is busy",
    1969: "a statement took longer than its limit. Look for locks that are held long, and for a server that is busy",
}


_REFUSALS = Refusals(
    overtaken=_OVERTAKEN,
    missing=_MISSING,
    not_allowed_in=_NOT_ALLOWED_IN,
    not_allowed_to=_NOT_ALLOWED_TO,
    advice=_ADVICE,
)


def number(error: BaseException) -> int:
    """The server's or the client's number of the error, 0 if it has none."""
    cause = cause_of(error)
    first = cause.args[0] if cause is not None and cause.args else 0
    return first if isinstance(first, int) else 0


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
    code = number(cause)
    # An interface error is what the Python driver says of a connection that it has closed itself.
    if code in _GONE or 2000 <= code < 3000 or (code == 0 and isinstance(cause, module.InterfaceError)):
        return lost_connection(_said(cause), where, stored)
    return _refused(code, cause, where, module)


def _refused(code: int, cause: BaseException, where: str, module: object) -> JobsError | None:
    known = _REFUSALS.known(code, _said(cause), where)
    if known is not None:
        return known
    if isinstance(cause, module.OperationalError | module.InternalError | module.DataError):  # type: ignore[attr-defined]
        return refused_statement(_said(cause), where)
    return None


def _said(cause: BaseException) -> str:
    return str(cause.args[-1] if cause.args else cause).strip().partition("\n")[0]
