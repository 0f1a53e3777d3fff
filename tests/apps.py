"""Small shops with jobs, on each kind of session, and what their tests look at."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from flask import Flask, current_app
from flask_sqlalchemy import SQLAlchemy
from flask_sqlalchemy_lite import SQLAlchemy as SQLAlchemyLite
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session, sessionmaker

from flask_jobs import Job, Jobs
from flask_jobs.options import WorkerDefaults
from flask_jobs.state import AppState
from flask_jobs.worker import Worker
from flask_jobs.worker.settings import Stop, WorkerSettings

KINDS = ("flask_sqlalchemy", "flask_sqlalchemy_lite", "scoped_session")


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    state: Mapped[str] = mapped_column(sa.String(200), default="new")


class Draft(Base):
    """Jobs whose draft is gone end quietly."""

    __tablename__ = "drafts"
    id: Mapped[int] = mapped_column(primary_key=True)


class Note(Job):
    """Writes its word into the ledger."""

    def __init__(self, word: str) -> None:
        self.word = word

    def handle(self) -> None:
        note(self.word)


class Ship(Job):
    """Writes the state of its order, as the worker finds it, into the ledger."""

    def __init__(self, order: Order) -> None:
        self.order = order

    def handle(self) -> None:
        note(f"ship {self.order.state}")


class Tidy(Job):
    """Needs a draft that may be gone."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft

    def handle(self) -> None:
        note(f"tidy {self.draft.id}")


class Burst(Job):
    """Raises so many times, then succeeds."""

    max_attempts = 3
    backoff = 0

    def __init__(self, word: str, times: int = 99) -> None:
        self.word = word
        self.times = times

    def handle(self) -> None:
        attempt = attempts(self.word)
        note(self.word)
        if attempt < self.times:
            raise ValueError(f"burst {self.word}")

    def failed(self, error: BaseException) -> None:
        note(f"{self.word} failed: {type(error).__name__}")


JOBS: Mapping[str, type[Job]] = {"note": Note, "ship": Ship, "tidy": Tidy, "burst": Burst}


def note(word: str) -> None:
    """Append the word to the current app's ledger, whatever transaction is open."""
    with Path(current_app.config["LEDGER"]).open("a") as ledger:
        ledger.write(json.dumps(word) + "\n")


def noted(app: Flask) -> list[str]:
    """All that jobs wrote into the app's ledger."""
    ledger = Path(app.config["LEDGER"])
    return [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []


def attempts(word: str) -> int:
    """How often the word stands in the current app's ledger."""
    return noted(current_app).count(word)


class Shop:
    """One app on a database file, with one kind of session and jobs of its own."""

    def __init__(self, kind: str, folder: Path, *, url: str | None = None, **config: Any) -> None:
        self.kind = kind
        self.file = folder / "shop.db"
        self.url = url or f"sqlite:///{self.file}"
        self.app = Flask("shop", instance_path=str(folder / "instance"))
        self.app.config.update({"SECRET_KEY": "of the shop", "LEDGER": str(folder / "ledger"), **config})
        self._scoped: scoped_session[Session] | None = None
        if kind == "scoped_session":
            self.engine = sa.create_engine(self.url)
            self._scoped = scoped_session(sessionmaker(self.engine))
            self.app.teardown_appcontext(lambda error: self._scoped.remove())  # type: ignore[union-attr]
        self.jobs = Jobs(session=self._scoped)
        self._register()
        self._connect()
        self.jobs.init_app(self.app)
        Base.metadata.create_all(self.engine)

    def _register(self) -> None:
        for name, cls in JOBS.items():
            self.jobs.register(name)(cls)
        self.jobs.model("order")(Order)
        self.jobs.model("draft", delete_when_missing=True)(Draft)

    def _connect(self) -> None:
        if self.kind == "scoped_session":
            return
        if self.kind == "flask_sqlalchemy":
            self.app.config["SQLALCHEMY_DATABASE_URI"] = self.url
            db = SQLAlchemy(self.app)
        else:
            self.app.config["SQLALCHEMY_ENGINES"] = {"default": self.url}
            db = SQLAlchemyLite(self.app)
        self._db: Any = db
        # Asked of the extension and not of `Jobs`, whose own finding is what is tested.
        with self.app.app_context():
            self.engine = db.engine

    @property
    def session(self) -> Any:
        """The session of the current context, as the app's own code would come by it."""
        return self._scoped if self._scoped is not None else self._db.session

    @contextmanager
    def context(self) -> Iterator[None]:
        """An app context, as a request has one."""
        with self.app.app_context():
            yield

    @property
    def state(self) -> AppState:
        return self.app.extensions["flask_jobs"]

    def driver(self, connection: str | None = None) -> Any:
        return self.state.connections.driver(connection)

    def add_order(self, state: str = "new") -> Order:
        """A committed order, in the current context's session."""
        order = Order(state=state)
        self.session.add(order)
        self.session.commit()
        return order

    def stored(self, file: Path | None = None) -> list[str]:
        """The names of the stored jobs as another connection sees them, in order of their push; none without tables."""
        return [row[0] for row in self.rows("SELECT name FROM flask_jobs ORDER BY seq", file)]

    def rows(self, query: str, file: Path | None = None) -> list[tuple[Any, ...]]:
        """What another connection sees."""
        connection = sqlite3.connect(file or self.file)
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            return []
        finally:
            connection.close()

    @property
    def noted(self) -> list[str]:
        return noted(self.app)

    def worker(self, connection: str | None = None, **given: Any) -> Worker:
        """A worker of this shop, which ends when nothing is due unless it is told otherwise."""
        return worker(self.app, connection, **given)

    def work(self, connection: str | None = None, **given: Any) -> Stop:
        """Run jobs until nothing is due."""
        return self.worker(connection, **given).run()

    def close(self) -> None:
        self.state.connections.close()
        self.engine.dispose()


def worker(
    app: Flask,
    connection: str | None = None,
    *,
    queues: tuple[str, ...] = ("default",),
    stop_when_empty: bool = True,
    sleep: float = 0.05,
    timeout: float = 30.0,
    **given: Any,
) -> Worker:
    """A worker of the app's connection."""
    state: AppState = app.extensions["flask_jobs"]
    name = state.connections.settings(connection).name
    settings = WorkerSettings(
        queues=queues,
        defaults=WorkerDefaults(timeout=timeout),
        stop_when_empty=stop_when_empty,
        sleep=sleep,
        **given,
    )
    return Worker(state.connections.driver(name), state.executor(name), events=state.events(name), settings=settings)
