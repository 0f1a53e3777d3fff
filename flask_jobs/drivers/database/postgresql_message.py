"""Several statements as one message to PostgreSQL, and the answer to the last of them.

The values are put in on this side: the protocol that takes them apart takes no more than one statement.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy.pool import PoolProxiedConnection

from .text import Parameters, Ran

_CONVERTER = "flask_jobs.converter"


def sent(connection: PoolProxiedConnection, text: str, parameters: Parameters, module: Any) -> Ran:
    """Send the statements and wait; what goes wrong raises an error of `module`, the server's Python driver."""
    if hasattr(module, "ClientCursor"):
        return _sent_by_psycopg(connection, text, parameters, module)
    cursor = connection.cursor()
    cursor.execute(text, parameters)
    return Ran(cursor.rowcount, () if cursor.description is None else cursor.fetchall())


def _sent_by_psycopg(connection: PoolProxiedConnection, text: str, parameters: Parameters, module: Any) -> Ran:
    # One of its cursors would make itself ready for the answer of each statement, which costs more than all the rest.
    raw: Any = connection.driver_connection
    converter = connection.info.get(_CONVERTER)
    if converter is None:
        converter = connection.info[_CONVERTER] = module.adapt.Transformer(raw)
    literals = {name.encode(): converter.as_literal(value) for name, value in parameters.items()}
    with raw.lock:
        raw.pgconn.send_query(text.encode() % literals)
        answer = raw.wait(module.generators.execute(raw.pgconn))[-1]
    if answer.status not in (module.pq.ExecStatus.TUPLES_OK, module.pq.ExecStatus.COMMAND_OK):
        raise module.errors.error_from_result(answer, encoding=raw.info.encoding)
    converter.set_pgresult(answer)
    rows = converter.load_rows(0, answer.ntuples, tuple)
    converter.set_pgresult(None)  # it is not kept while the connection is idle
    return Ran(answer.command_tuples or 0, rows)
