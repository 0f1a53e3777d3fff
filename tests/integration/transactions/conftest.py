"""A small shop on each kind of session, and a sink that shows what the gate hands over."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from flask_sqlalchemy_lite import SQLAlchemy as SQLAlchemyLite
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from flask_jobs import transactions
from flask_jobs.ledger import Reason
from flask_jobs.sessions import Sessions, sessions_of

KINDS = ("flask_sqlalchemy", "flask_sqlalchemy_lite", "scoped_session", "sessionmaker")


class Base(DeclarativeBase):
    pass


class Archive(DeclarativeBase):
    metadata = sa.MetaData(info={"bind_key": "archive"})


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(default="new", unique=True)


class OldOrder(Archive):
    __tablename__ = "old_orders"
    id: Mapped[int] = mapped_column(primary_key=True)


OUTBOX = sa.Table("outbox", sa.MetaData(), sa.Column("job", sa.String))


class Outbox:
    """A sink: stores what it may through the app's connection, and keeps a log of all it is told."""

    def __init__(self, engine: sa.Engine | None = None, *, unshared: Sequence[str] = ()) -> None:
        self.engine = engine
        self.unshared = unshared
        self.log: list[tuple[str, list[str]]] = []
        self.reasons: list[Reason] = []
        self.error_within: BaseException | None = None
        self.error_after: BaseException | None = None
        self.look_after: Callable[[], None] = lambda: None

    def told(self, what: str) -> list[list[str]]:
        return [items for told, items in self.log if told == what]

    def shares(self, item: str, engine: sa.Engine) -> bool:
        return engine is self.engine and item not in self.unshared

    def within(self, connection: sa.Connection, items: Sequence[str]) -> None:
        self.log.append(("within", list(items)))
        connection.execute(OUTBOX.insert(), [{"job": item} for item in items])
        if self.error_within is not None:
            raise self.error_within

    def committed(self, items: Sequence[str]) -> None:
        self.log.append(("committed", list(items)))

    def after(self, items: Sequence[str]) -> None:
        self.log.append(("after", list(items)))
        self.look_after()
        if self.error_after is not None:
            raise self.error_after

    def discarded(self, items: Sequence[str], reason: Reason) -> None:
        self.log.append(("discarded", list(items)))
        self.reasons.append(reason)


class Shop:
    """One app with a database of orders, an archive beside it, and one kind of session."""

    def __init__(self, kind: str, folder: Path, *, expire_on_commit: bool = True) -> None:
        self.kind = kind
        self.file = folder / "shop.db"
        self.app = Flask(__name__, instance_path=str(folder))
        self.factory: sessionmaker[Session] | None = None
        self._made: list[Session] = []
        self.sessions = self._connect(f"sqlite:///{self.file}", f"sqlite:///{folder / 'archive.db'}", expire_on_commit)
        with self.context():
            self.engine, self.archive = self._engines()
            self.sessions.watch()
        Base.metadata.create_all(self.engine)
        OUTBOX.create(self.engine)
        Archive.metadata.create_all(self.archive)
        self.outbox = Outbox()

    def _connect(self, url: str, archive: str, expire: bool) -> Sessions:
        options = {"expire_on_commit": expire}
        if self.kind == "flask_sqlalchemy":
            self.app.config.update(SQLALCHEMY_DATABASE_URI=url, SQLALCHEMY_BINDS={"archive": archive})
            SQLAlchemy(self.app, session_options=options)
            return sessions_of(self.app)
        if self.kind == "flask_sqlalchemy_lite":
            self.app.config.update(SQLALCHEMY_ENGINES={"default": url, "archive": archive})
            SQLAlchemyLite(self.app, session_options={**options, "binds": {Archive: "archive"}})
            return sessions_of(self.app)
        engine, binds = sa.create_engine(url), {Archive: sa.create_engine(archive)}
        self.factory = sessionmaker(engine, binds=binds, expire_on_commit=expire)
        self._archive = binds[Archive]
        return sessions_of(self.app, self.factory if self.kind == "sessionmaker" else scoped_session(self.factory))

    def _engines(self) -> tuple[sa.Engine, sa.Engine]:
        engine = self.sessions.engine()
        assert engine is not None
        archive = next((e for e in self.sessions.engines() if e is not engine), None)
        return engine, archive or self._archive

    @contextmanager
    def context(self) -> Iterator[None]:
        """What a request is to this kind: its session is gone behind it."""
        flask_kinds = ("flask_sqlalchemy", "flask_sqlalchemy_lite")
        scope: AbstractContextManager[object] = self.app.app_context() if self.kind in flask_kinds else nullcontext()
        with scope:
            try:
                yield
            finally:
                if self.kind not in flask_kinds:
                    self.end()

    @property
    def session(self) -> Session:
        if self.kind != "sessionmaker":
            return self.sessions.current()
        assert self.factory is not None
        if not self._made:
            self._made.append(self.factory())
        return self._made[0]

    def end(self) -> None:
        """End the session as the app would at the end of a request."""
        if self.kind == "sessionmaker":
            while self._made:
                self._made.pop().close()
        else:
            self.sessions.remove()

    def dispatch(self, *jobs: str, after_commit: bool | None = None, to: Outbox | None = None) -> bool:
        """Dispatch as the library does, and say whether the jobs wait."""
        outbox = to or self.outbox
        if transactions.waits(self.session, outbox, call=after_commit, default=True):
            transactions.defer(self.session, outbox, jobs)
            return True
        outbox.log.append(("at once", list(jobs)))
        return False

    def add(self, state: str) -> Order:
        order = Order(state=state)
        self.session.add(order)
        return order

    def visible(self, table: str, column: str) -> list[str]:
        """What another connection sees in the table."""
        connection = sqlite3.connect(self.file)
        try:
            return [row[0] for row in connection.execute(f"SELECT {column} FROM {table} ORDER BY rowid")]
        finally:
            connection.close()

    @property
    def orders(self) -> list[str]:
        return self.visible("orders", "state")

    @property
    def jobs(self) -> list[str]:
        return self.visible("outbox", "job")

    def share(self, **options: Sequence[str]) -> Outbox:
        """From now on the jobs live in the app's own database."""
        transactions.begin_before_savepoint(self.engine)
        self.outbox = Outbox(self.engine, **options)
        return self.outbox

    def close(self) -> None:
        self.engine.dispose()
        self.archive.dispose()


@pytest.fixture
def model() -> type[Order]:
    return Order


@pytest.fixture
def old_model() -> type[OldOrder]:
    return OldOrder


@pytest.fixture
def make_shop(tmp_path: Path) -> Iterator[Callable[..., Shop]]:
    shops: list[Shop] = []

    def make(kind: str = "flask_sqlalchemy", **options: bool) -> Shop:
        folder = tmp_path / str(len(shops))
        folder.mkdir()
        shops.append(Shop(kind, folder, **options))
        return shops[-1]

    yield make
    for shop in shops:
        shop.close()


@pytest.fixture(params=KINDS)
def shop(request: pytest.FixtureRequest, make_shop: Callable[..., Shop]) -> Iterator[Shop]:
    """A shop of each kind, within what a request is to it."""
    made: Shop = make_shop(request.param)
    with made.context():
        yield made


@pytest.fixture
def make_outbox() -> type[Outbox]:
    return Outbox
