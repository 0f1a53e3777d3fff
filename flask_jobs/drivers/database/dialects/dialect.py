"""What a kind of database server must answer for: clock, locks, transactions, waiting, and what its errors mean."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import sqlalchemy as sa
from sqlalchemy.pool import PoolProxiedConnection

from ....errors import JobsError, Stored, StoreRefused
from ..text import Ran, Statement

_NOTHING = nullcontext()

Select = sa.Select[Any]
Unique = sa.Column[Any] | tuple[sa.Column[Any], ...]


def columns(unique: Unique) -> tuple[sa.Column[Any], ...]:
    """The columns that are unique together."""
    return unique if isinstance(unique, tuple) else (unique,)


class Overtaken(StoreRefused):
    """Others were in the way, and the server has given up this transaction for theirs. It can be run again."""


@dataclass(frozen=True, slots=True)
class Alone:
    """A statement with its parameters that is a transaction of its own, with what comes `before` it there.

    Its result alone counts. What is not `lasting` may be lost in a power cut, if that makes the commit quicker.
    """

    statement: Statement
    parameters: Any
    before: Sequence[Statement]
    lasting: bool


class Watch(Protocol):
    """Tells cheaply whether anything has been written. Safe to ask from several threads."""

    def is_in_place(self) -> bool:
        """Whether it still watches what is opened anew."""

    def count(self, queues: Sequence[str]) -> int | None:
        """A number that differs from the one before if anything was written since; None if it cannot be told now.

        Where it is known which queue was written to, only these count.
        """

    def pause(self, limit: float) -> None:
        """Wait until it is worth asking again, for at most `limit` seconds."""

    def close(self) -> None:
        """Let go of what watching holds."""


class Dialect(ABC):
    """One kind of database server."""

    reckons_first: ClassVar[bool] = True
    """Whether a bound that a subquery gives is known before the server chooses how to look for rows."""

    makes_tables: ClassVar[bool] = False
    """Whether missing tables are made on first use, rather than by `flask jobs init-db` alone."""

    clock: ClassVar[sa.ColumnElement[float]]
    """The server's own present in epoch seconds, as an expression that stands still within one statement."""

    @abstractmethod
    def refuse_unusable(self, engine: sa.Engine) -> None:
        """Raise `ConfigurationError` if no queue can live in this database, as far as it can be told unasked."""

    def given(self, instant: sa.BindParameter[float]) -> sa.ColumnElement[float]:
        """An instant given from outside as the server reckons with it."""
        return instant

    def try_out(self, connection: sa.Connection) -> None:
        """Raise `ConfigurationError` if the server cannot do what the queue needs, found by trying."""

    @abstractmethod
    def begin(self, connection: PoolProxiedConnection, *, lasting: bool = True) -> None:
        """Begin a transaction that reads before it writes and must not be overtaken in between.

        What is not `lasting` may be lost in a power cut, if that makes the commit quicker.
        """

    @abstractmethod
    def commit(self, connection: PoolProxiedConnection) -> None:
        """Make the transaction last."""

    @abstractmethod
    def rollback(self, connection: PoolProxiedConnection) -> None:
        """Give the transaction up."""

    @abstractmethod
    def run_alone(self, connection: PoolProxiedConnection, alone: Alone, module: Any) -> Ran:
        """Run the statement and commit; if it raises, nothing is left of it. `module` is the server's Python driver."""

    def end_reading(self, connection: PoolProxiedConnection) -> None:
        """Let go of what reading holds."""

    def lending(self, connection: PoolProxiedConnection) -> AbstractContextManager[None]:
        """Prepare a connection from the pool for our use, and put it back as it was."""
        return _NOTHING

    def go_on(self, connection: PoolProxiedConnection) -> None:
        """The transaction goes on, for the server has answered so far."""

    @contextmanager
    def creating(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        """A connection to make tables with, one process at a time where they would get in each other's way."""
        with engine.begin() as connection:
            yield connection

    def begin_within(self, connection: sa.Connection) -> None:
        """Make sure that what follows is part of a transaction of the app's connection, table creation included."""

    def taking(self, select: Select) -> Select:
        """The rows, but for those that others are taking just now, held until the transaction ends."""
        return select.with_for_update(skip_locked=True)

    def holding(self, select: Select) -> Select:
        """The rows, after others have let go of them, held until the transaction ends."""
        return select.with_for_update()

    def current(self, select: Select) -> Select:
        """The rows as others have committed them by now, even where the app's transaction sees an older state."""
        return select

    def joined(self, first: sa.ColumnElement[Any], *others: sa.ColumnElement[Any]) -> sa.ColumnElement[str]:
        """The texts and numbers as one text."""
        whole = first
        for other in others:
            whole = whole.op("||")(other)
        return whole

    @abstractmethod
    def insert_new(self, table: sa.Table, names: Sequence[str], rows: Select, *, unique: Unique) -> sa.Insert:
        """An insert of the rows, leaving out those whose `unique` value, or values, are in the table already."""

    @abstractmethod
    def insert_unless_taken(self, table: sa.Table, names: Sequence[str], rows: Select) -> sa.Insert:
        """An insert of a row that does nothing, or raises what `is_duplicate` knows, if a unique value is taken.

        It waits for the end of a transaction of others that has taken or given up such a value.
        """

    def is_duplicate(self, error: BaseException) -> bool:
        """Whether `insert_unless_taken` has raised this because a value is taken; the transaction goes on."""
        return False

    def make_ready(self, connection: sa.Connection, *, wal: bool) -> None:
        """Set what stays set in the database itself."""

    @abstractmethod
    def watch(self, engine: sa.Engine, *, notify: bool) -> Watch:
        """What `wait` asks between two looks at the tables."""

    @abstractmethod
    def translate(self, error: BaseException, engine: sa.Engine, stored: Stored) -> JobsError | None:
        """The library's own error for one of the server's, or None if it is no error of the server.

        `stored` says what is known of a transaction whose connection is lost now.
        """
