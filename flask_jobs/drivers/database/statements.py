"""Statements written in SQLAlchemy Core, compiled once for a server, and run as plain text ever after.

Compiling is what costs time in Core; the hot path of a queue runs the same few statements all day.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor

from ... import clock
from ...envelope import After, At, When
from .dialects import Dialect
from .text import PRESENT, Parameters, Statement

Row = tuple[Any, ...]


def parameter(name: str, type_: sa.types.TypeEngine[Any] | type[sa.types.TypeEngine[Any]]) -> sa.BindParameter[Any]:
    """A value given when the statement runs.

    In an UPDATE it must not be called like a column, for Core would take it for that column's new value.
    """
    return sa.bindparam(name, type_=type_)


def constant(value: int) -> sa.ColumnElement[int]:
    """A number written into the statement, for the planner to see."""
    return sa.literal_column(str(value), sa.Integer)


def padded(name: str, values: Sequence[object]) -> dict[str, object]:
    """The values as parameters, the last repeated up to a power of two, so that few statements serve all amounts."""
    amount = 1 << (len(values) - 1).bit_length()
    return {f"{name}{place}": values[min(place, len(values) - 1)] for place in range(amount)}


def places(name: str, amount: int, type_: type[sa.types.TypeEngine[Any]]) -> list[sa.BindParameter[Any]]:
    """The parameters that `padded` gives values to."""
    return [parameter(f"{name}{place}", type_) for place in range(amount)]


def limited(select: sa.Select[Any]) -> sa.Select[Any]:
    """The first rows, as many as the parameter `limit` says."""
    # Without an offset of ours, Core adds one as a parameter with a name of its own.
    return select.limit(parameter("limit", sa.Integer)).offset(constant(0))


class Compiler:
    """Compiles for one server and one way of telling the time.

    `now` stands for the present in statements: the server's clock, or with `local_clock` a parameter.
    """

    def __init__(self, dialect: Dialect, engine: sa.Engine, *, local_clock: bool) -> None:
        self.dialect = dialect
        self.local_clock = local_clock
        self.now = dialect.given(parameter(PRESENT, sa.Double)) if local_clock else dialect.clock
        self._engine = engine

    def __call__(self, statement: sa.sql.ClauseElement) -> Statement:
        """The statement as text."""
        compiled = statement.compile(dialect=self._engine.dialect)
        assert isinstance(compiled, sa.sql.compiler.SQLCompiler)
        positions = compiled.positiontup
        return Statement(str(compiled), None if positions is None else tuple(positions))

    def instant(self, name: str) -> sa.ColumnElement[float]:
        """An instant given as the parameters that `instant_parameters` makes."""
        # Where the present is reckoned anew for each mention, it is not reckoned for nothing.
        is_relative = parameter(f"{name}_relative", sa.Integer) == constant(1)
        since = sa.case((is_relative, self.now), else_=sa.literal_column("0.0", sa.Double))
        return parameter(f"{name}_amount", sa.Double) + since


def instant_parameters(name: str, when: When | None) -> dict[str, object]:
    """`when` as parameters, so that a duration is added to the server's own present; None gives NULL."""
    match when:
        case None:
            return {f"{name}_amount": None, f"{name}_relative": 0}
        case After(seconds):
            return {f"{name}_amount": seconds, f"{name}_relative": 1}
        case At(at):
            return {f"{name}_amount": at, f"{name}_relative": 0}


_BY_NAME = re.compile(r"%\((\w+)\)s")


def repeated(insert: Statement, rows: Sequence[Parameters]) -> tuple[Statement, Parameters]:
    """An insert of one row as an insert of several, for servers that take parameters by name."""
    head, values, row = insert.text.partition(" VALUES ")
    texts: list[str] = []
    parameters: dict[str, object] = {}
    for place, given in enumerate(rows):
        # What is no row's own, such as the present of a local clock, keeps its name.
        texts.append(_BY_NAME.sub(_renaming(place, given), row))
        parameters |= {f"{name}_{place}": value for name, value in given.items()}
    return Statement(head + values + ", ".join(texts), None), parameters


def _renaming(place: int, given: Parameters) -> Callable[[re.Match[str]], str]:
    return lambda found: f"%({found[1]}_{place})s" if found[1] in given else found[0]


class Transaction(Protocol):
    """Runs statements within one transaction. Each sees the present of a local clock as the parameter `now`."""

    def run(self, statement: Statement, parameters: Parameters) -> int:
        """Run it, and say how many rows it touched."""

    def run_many(self, statement: Statement, rows: Sequence[Parameters]) -> int:
        """Run it once for each of the parameters, and say how many rows were touched in all."""

    def rows(self, statement: Statement, parameters: Parameters) -> Sequence[Row]:
        """All rows that it finds."""


class OwnTransaction:
    """A transaction on a connection of the driver's own. `go_on` is called before each statement."""

    def __init__(self, connection: DBAPIConnection, *, go_on: Callable[[], None]) -> None:
        self._connection = connection
        self._go_on = go_on
        self._cursor = connection.cursor()
        self._streams: list[DBAPICursor] = []
        self._present = clock.now()

    def run(self, statement: Statement, parameters: Parameters) -> int:
        self._go_on()
        self._cursor.execute(statement.text, statement.bind(parameters, self._present))
        return self._cursor.rowcount

    def run_many(self, statement: Statement, rows: Sequence[Parameters]) -> int:
        self._go_on()
        self._cursor.executemany(statement.text, statement.bind_all(rows, self._present))
        return self._cursor.rowcount

    def rows(self, statement: Statement, parameters: Parameters) -> Sequence[Row]:
        self._go_on()
        self._cursor.execute(statement.text, statement.bind(parameters, self._present))
        return self._cursor.fetchall()

    def stream(self, statement: Statement, parameters: Parameters) -> Iterator[Row]:
        """The rows that it finds, read one by one, as long as they are asked for."""
        self._go_on()
        cursor = self._connection.cursor()
        self._streams.append(cursor)
        cursor.execute(statement.text, statement.bind(parameters, self._present))
        return iter(cursor.fetchone, None)

    def end_streams(self) -> None:
        """Stop reading, so that the transaction can end."""
        for cursor in self._streams:
            cursor.close()


class AppTransaction:
    """The app's own transaction, run through its connection, so that the app's logs and counters see it."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._present = clock.now()

    def run(self, statement: Statement, parameters: Parameters) -> int:
        return self._execute(statement, parameters).rowcount

    def run_many(self, statement: Statement, rows: Sequence[Parameters]) -> int:
        bound = list(statement.bind_all(rows, self._present))
        return self._connection.exec_driver_sql(statement.text, bound).rowcount

    def rows(self, statement: Statement, parameters: Parameters) -> Sequence[Row]:
        return [tuple(row) for row in self._execute(statement, parameters)]

    def _execute(self, statement: Statement, parameters: Parameters) -> sa.CursorResult[Any]:
        return self._connection.exec_driver_sql(statement.text, statement.bind(parameters, self._present))
