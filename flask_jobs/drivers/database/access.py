"""How the parts of the driver reach the database: connections, transactions, tables, and errors in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Self

import sqlalchemy as sa
from sqlalchemy.pool import PoolProxiedConnection

from ... import clock as clocks
from ...driver import Driver
from ...errors import ConfigurationError, ConnectionLost, JobsError, SchemaMissing, Stored
from ...validation import seconds
from . import schema
from .bell import Bell
from .bookings import Bookings
from .dialects import Alone, Dialect, dialect_of
from .server_errors import NotAllowed
from .statements import AppTransaction, Compiler, OwnTransaction, Row
from .text import Parameters, Ran, Statement


class Translation:
    """Turns the server's errors into the library's own: the one place where that is done.

    `stored` is what would be known of the transaction if its connection were lost now.
    """

    __slots__ = ("_translated", "stored")

    def __init__(self, translated: Callable[[Exception, Stored], JobsError | None]) -> None:
        self._translated = translated
        self.stored = Stored.NO

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        # Which classes the server's driver raises, only the dialect knows.
        if isinstance(error, Exception) and (own := self._translated(error, self.stored)) is not None:
            raise own from error


class Access(Driver):
    """Opens transactions on an engine of the driver's own, with the tables in place.

    `clock` is "store" for the server's time or "local" for this process's. `wal` lets `prepare` set SQLite's
    write-ahead log. An engine that is not owned stays open when the driver closes.
    """

    def __init__(
        self,
        engine: sa.Engine,
        *,
        retry_after: float = 90.0,
        remember_ids: float = 3_600.0,
        clock: str = "store",
        wal: bool = True,
        notify: bool = True,
        owns_engine: bool = True,
    ) -> None:
        if clock not in ("store", "local"):
            raise ConfigurationError(f"clock must be 'store' or 'local', not {clock!r}.")
        self.retry_after = seconds(retry_after, what="retry_after")
        self.remember_ids = seconds(remember_ids, what="remember_ids")
        self.engine = engine
        self.dialect: Dialect = dialect_of(engine)
        self.compile = Compiler(self.dialect, engine, local_clock=clock == "local")
        self.bell = Bell(self.compile, notify=notify)
        self._wal = wal
        self._owns_engine = owns_engine
        self._ready = False
        self._present = self.compile(sa.select(self.compile.now))

    def prepare(self) -> None:
        """Make the tables and check their version, and set SQLite's write-ahead log."""
        with self.translating():
            self.dialect.refuse_unusable(self.engine)
            with self.engine.connect() as connection:
                self.dialect.make_ready(connection, wal=self._wal)
            self._make_tables()
            self._try_out()
        self._ready = True

    def close(self) -> None:
        """Close the driver's own connections."""
        if self._owns_engine:
            self.engine.dispose()

    @cached_property
    def bookings(self) -> Bookings:
        """What jobs have booked of limits, which is given back with the end of a job."""
        return Bookings(self.compile)

    @contextmanager
    def writing(self, *, lasting: bool = True) -> Iterator[OwnTransaction]:
        """A transaction that may read before it writes; it is committed at the end, or leaves nothing behind.

        If it is not `lasting`, a power cut may lose it, where that makes it quicker.
        """
        with self.translating() as fate, self.lending() as connection:
            try:
                self.dialect.begin(connection, lasting=lasting)
                transaction = OwnTransaction(connection, go_on=partial(self.dialect.go_on, connection))
                try:
                    yield transaction
                finally:
                    transaction.end_streams()
                fate.stored = Stored.UNKNOWN
                self.dialect.commit(connection)
            except Exception:
                self._roll_back(connection)
                raise

    def run_alone(
        self, statement: Statement, parameters: Parameters, *, lasting: bool, before: Sequence[Statement] = ()
    ) -> Sequence[Row]:
        """The rows of one statement that is a transaction of its own, together with what comes before."""
        with self.translating() as fate, self.lending() as connection:
            fate.stored = Stored.UNKNOWN
            return self._alone(connection, statement, parameters, lasting=lasting, before=before).rows

    def read_alone(self, statement: Statement, parameters: Parameters) -> Sequence[Row]:
        """The rows of one statement that only reads."""
        with self.translating(), self.lending() as connection:
            return self._alone(connection, statement, parameters, lasting=True, before=()).rows

    def change_alone(
        self, statement: Statement, parameters: Parameters, *, lasting: bool, before: Sequence[Statement] = ()
    ) -> int:
        """How many rows one statement has touched that is a transaction of its own, together with what comes before."""
        with self.translating() as fate, self.lending() as connection:
            fate.stored = Stored.UNKNOWN
            return self._alone(connection, statement, parameters, lasting=lasting, before=before).touched

    def _alone(
        self,
        connection: PoolProxiedConnection,
        statement: Statement,
        parameters: Parameters,
        *,
        lasting: bool,
        before: Sequence[Statement],
    ) -> Ran:
        bound = statement.bind(parameters, clocks.now())
        alone = Alone(statement, bound, before, lasting=lasting)
        return self.dialect.run_alone(connection, alone, self.engine.dialect.loaded_dbapi)

    @contextmanager
    def reading(self) -> Iterator[OwnTransaction]:
        """A connection to read with, which takes no write lock."""
        with self.translating(), self.lending() as connection:
            yield OwnTransaction(connection, go_on=partial(self.dialect.go_on, connection))
            self.dialect.end_reading(connection)

    @contextmanager
    def lending(self) -> Iterator[PoolProxiedConnection]:
        """A connection of the pool, with the tables in place. One that is lost does not go back."""
        self._be_ready()
        connection = self.engine.raw_connection()
        try:
            with self.dialect.lending(connection):
                yield connection
        except BaseException as error:
            if self._is_of_no_use(error, connection):
                self._discard(connection, alone=not isinstance(error, Exception))
            raise
        finally:
            connection.close()

    @contextmanager
    def within(self, connection: sa.Connection) -> Iterator[AppTransaction]:
        """The app's own transaction, with the tables in place as far as it can see."""
        with self.translating():
            self.dialect.refuse_unusable(self.engine)
            # Tables made here are gone if the app rolls back, so nothing is concluded from finding them.
            if not self._ready:
                self._make_tables_within(connection)
            yield AppTransaction(connection)

    def has_tables(self) -> bool:
        """Whether there is anything to look at. Makes nothing, for the app may be amid a transaction of its own."""
        if self._ready:
            return True
        with self.translating():
            self.dialect.refuse_unusable(self.engine)
            with self.engine.connect() as connection:
                return self._tables_are_there(connection)

    def present(self, transaction: OwnTransaction) -> float:
        """The store's present."""
        return float(transaction.rows(self._present, {})[0][0])

    def _be_ready(self) -> None:
        if self._ready:
            return
        self.dialect.refuse_unusable(self.engine)
        with self.engine.connect() as connection:
            found = self._tables_are_there(connection)
        if not found:
            self._require_right_to_make_tables()
            self._make_tables()
        self._try_out()
        self._ready = True

    def _make_tables(self) -> None:
        with self.dialect.creating(self.engine) as connection:
            self._tables_are_there(connection)
            self._create_tables(connection)

    def _try_out(self) -> None:
        with self.engine.connect() as connection:
            self.dialect.try_out(connection)

    def _roll_back(self, connection: PoolProxiedConnection) -> None:
        try:
            self.dialect.rollback(connection)
        except self.engine.dialect.loaded_dbapi.Error:
            # The server rolls back what it has lost the client of.
            connection.invalidate()

    def _is_of_no_use(self, error: BaseException, connection: PoolProxiedConnection) -> bool:
        """Whether the server is gone, or something cut in while it answered."""
        if not isinstance(error, Exception):
            return True
        if not isinstance(error, self.engine.dialect.loaded_dbapi.Error):
            return False
        dialect = self.engine.dialect
        is_closed = connection.is_valid and dialect.is_disconnect(error, connection.dbapi_connection, None)
        return is_closed or isinstance(self.dialect.translate(error, self.engine, Stored.NO), ConnectionLost)

    def _discard(self, connection: PoolProxiedConnection, *, alone: bool) -> None:
        if connection.is_valid:
            connection.invalidate()
        if self._owns_engine and not alone:
            # The other idle connections will have met the same fate.
            self.engine.dispose()

    def _make_tables_within(self, connection: sa.Connection) -> None:
        if self._tables_are_there(connection):
            return
        self._require_right_to_make_tables()
        self.dialect.begin_within(connection)
        self._create_tables(connection)

    def _create_tables(self, connection: sa.Connection) -> None:
        try:
            schema.create_tables(connection)
        except sa.exc.DBAPIError as error:
            refusal = self.dialect.translate(error, self.engine, Stored.NO)
            if not isinstance(refusal, NotAllowed):
                raise
            raise SchemaMissing(
                f"The tables of flask_jobs are missing in {self.engine.url.render_as_string()}, and its user may not "
                "make them. Let somebody who may run `flask jobs init-db`, or the migration that makes them."
            ) from error

    def _require_right_to_make_tables(self) -> None:
        if not self.dialect.makes_tables:
            raise SchemaMissing(
                f"The tables of flask_jobs are missing in {self.engine.url.render_as_string()}. "
                "Make them with `flask jobs init-db`."
            )

    def _tables_are_there(self, connection: sa.Connection) -> bool:
        version = schema.found_version(connection)
        if version is not None and version > schema.VERSION:
            raise SchemaMissing(
                f"The tables of flask_jobs in {self.engine.url.render_as_string()} are of version {version}, made by a "
                f"newer release; this one knows version {schema.VERSION}. Install the newer release here, too."
            )
        return version is not None

    def translating(self) -> Translation:
        """A block out of which come the library's own errors."""
        return Translation(self._translated)

    def _translated(self, error: Exception, stored: Stored) -> JobsError | None:
        own = self.dialect.translate(error, self.engine, stored)
        # The tables may have been dropped since they were seen.
        if isinstance(own, SchemaMissing):
            self._ready = False
        return own
