"""How the parts of the driver reach the database: connections, transactions, tables, and errors in one place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from ...driver import Driver
from ...errors import ConfigurationError, SchemaMissing
from ...validation import seconds
from . import schema
from .dialects import Dialect, dialect_named
from .statements import AppTransaction, Compiler, OwnTransaction


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
        owns_engine: bool = True,
    ) -> None:
        if clock not in ("store", "local"):
            raise ConfigurationError(f"clock must be 'store' or 'local', not {clock!r}.")
        self.retry_after = seconds(retry_after, what="retry_after")
        self.remember_ids = seconds(remember_ids, what="remember_ids")
        self.engine = engine
        self.dialect: Dialect = dialect_named(engine.dialect.name)
        self.compile = Compiler(self.dialect, engine, local_clock=clock == "local")
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
                self._make_tables(connection)
        self._ready = True

    def close(self) -> None:
        """Close the driver's own connections."""
        if self._owns_engine:
            self.engine.dispose()

    @contextmanager
    def writing(self) -> Iterator[OwnTransaction]:
        """A transaction that may read before it writes; it is committed at the end, or leaves nothing behind."""
        with self.translating():
            self._be_ready()
            connection = self.engine.raw_connection()
            try:
                self.dialect.begin(connection)
                transaction = OwnTransaction(connection)
                try:
                    yield transaction
                finally:
                    transaction.end_streams()
                connection.commit()
            except BaseException:
                connection.rollback()
                raise
            finally:
                connection.close()

    @contextmanager
    def reading(self) -> Iterator[OwnTransaction]:
        """A connection to read with, which takes no write lock."""
        with self.translating():
            self._be_ready()
            connection = self.engine.raw_connection()
            try:
                yield OwnTransaction(connection)
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

    def present(self, transaction: OwnTransaction) -> float:
        """The store's present."""
        return float(transaction.rows(self._present, {})[0][0])

    def _be_ready(self) -> None:
        if self._ready:
            return
        self.dialect.refuse_unusable(self.engine)
        with self.engine.connect() as connection:
            if not self._tables_are_there(connection):
                self._require_right_to_make_tables()
                self._make_tables(connection)
        self._ready = True

    def _make_tables(self, connection: sa.Connection) -> None:
        self.dialect.begin(connection.connection)
        self._tables_are_there(connection)
        schema.create_tables(connection)
        connection.commit()

    def _make_tables_within(self, connection: sa.Connection) -> None:
        if self._tables_are_there(connection):
            return
        self._require_right_to_make_tables()
        self.dialect.begin_within(connection)
        schema.create_tables(connection)

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

    @contextmanager
    def translating(self) -> Iterator[None]:
        """Turn the server's errors into the library's own: the one place where that is done."""
        try:
            yield
        except Exception as error:  # which classes the server's driver raises, only the dialect knows
            own = self.dialect.translate(error, self.engine)
            if own is None:
                raise
            # The tables may have been dropped since they were seen.
            if isinstance(own, SchemaMissing):
                self._ready = False
            raise own from error
