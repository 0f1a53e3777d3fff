from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from flask_jobs import Jobs, ModelNotFound
from flask_jobs.stored import Sizes
from flask_jobs.testing import FakeQueue
from tests.apps import KINDS, Note, Order, Ship, Shop, worker

CONNECTIONS = ("database", "apart", "sync", "fake")


class Line:
    """A shop and one connection of it: its dispatches go there, and `ran` is what has come of them."""

    def __init__(self, shop: Shop, connection: str, stack: ExitStack) -> None:
        self.shop = shop
        self.connection = connection
        self._queue: FakeQueue | None = None
        if connection == "fake":
            with shop.context():
                self._queue = stack.enter_context(shop.jobs.fake())

    def dispatch(self, word: str, **given: Any) -> None:
        connection = "database" if self.connection == "fake" else self.connection
        self.shop.jobs.dispatch(Note(word), connection=connection, **given)

    @property
    def visible(self) -> list[str]:
        """What another connection, or the fake's list, shows of the jobs by now."""
        if self._queue is not None:
            return [push.name for push in self._queue.pushed()]
        if self.connection == "sync":
            return self.shop.noted
        return self.shop.stored(self.shop.file.parent / "apart.db" if self.connection == "apart" else None)

    def ran(self) -> list[str]:
        """Run what is stored, and say what has run in which order."""
        if self._queue is not None:
            self._queue.drain()
        elif self.connection != "sync":
            self.shop.work(self.connection)
        return self.shop.noted


@pytest.fixture(params=[(kind, name) for kind in KINDS for name in CONNECTIONS], ids="-".join)
def line(request: pytest.FixtureRequest, tmp_path: Path, open_shop: Callable[..., Shop]) -> Iterator[Line]:
    kind, connection = request.param
    apart = {"apart": {"driver": "database", "url": f"sqlite:///{tmp_path / 'shop0' / 'apart.db'}"}}
    with ExitStack() as stack:
        yield Line(open_shop(kind, JOBS_CONNECTIONS=apart), connection, stack)


def nested(line: Line) -> None:
    """Dispatches A in the outer block, B in a released savepoint, D within B's, C in one that is rolled back."""
    session = line.shop.session
    session.add(Order(state="A"))
    line.dispatch("A")
    with session.begin_nested():
        session.add(Order(state="B"))
        line.dispatch("B")
        with session.begin_nested():
            session.add(Order(state="D"))
            line.dispatch("D")
    undone = session.begin_nested()
    session.add(Order(state="C"))
    line.dispatch("C")
    undone.rollback()


def test_f32_only_the_outermost_commit_lets_jobs_go_and_in_order(line: Line) -> None:
    with line.shop.context():
        nested(line)
        assert line.visible == []
        line.shop.session.commit()

    assert line.ran() == ["A", "B", "D"]
    assert line.shop.rows("SELECT state FROM orders ORDER BY id") == [("A",), ("B",), ("D",)]


@pytest.mark.parametrize("end", ["rollback", "close", "exception"])
def test_f32_f13_no_other_end_does_and_the_next_commit_is_whole(line: Line, end: str) -> None:
    def request() -> None:
        with line.shop.context():
            nested(line)
            if end == "exception":
                raise ZeroDivisionError
            getattr(line.shop.session, end)()

    if end == "exception":
        with pytest.raises(ZeroDivisionError):
            request()
    else:
        request()
    assert line.visible == []

    with line.shop.context():
        line.shop.session.add(Order(state="again"))
        line.dispatch("again")
        line.shop.session.commit()

    assert line.ran() == ["again"]
    assert line.shop.rows("SELECT state FROM orders") == [("again",)]


def test_f32_each_thread_has_a_session_and_jobs_of_its_own(line: Line) -> None:
    step = threading.Barrier(2, timeout=20)
    errors: list[BaseException] = []

    def run(word: str, end: str) -> None:
        try:
            with line.shop.context():
                step.wait()
                # One after the other, for SQLite has one writer; what is waiting stays with its own session.
                with line.shop.jobs.after_commit():
                    line.dispatch(word)
                step.wait()
                getattr(line.shop.session, end)()
        except BaseException as error:  # shown by the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=pair) for pair in (("kept", "commit"), ("dropped", "rollback"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert line.ran() == ["kept"]


def test_f32_with_two_engines_the_jobs_follow_the_commit_of_both(tmp_path: Path) -> None:
    class Base(DeclarativeBase):
        pass

    app, jobs, db = Flask("binds", instance_path=str(tmp_path)), Jobs(), SQLAlchemy(model_class=Base)

    class Here(db.Model):  # type: ignore[name-defined,misc]
        id: Mapped[int] = mapped_column(primary_key=True)

    class There(db.Model):  # type: ignore[name-defined,misc]
        __bind_key__ = "there"
        id: Mapped[int] = mapped_column(primary_key=True)

    app.config.update(
        SECRET_KEY="x",
        LEDGER=str(tmp_path / "ledger"),
        SQLALCHEMY_DATABASE_URI=f"sqlite:///{tmp_path}/here.db",
        SQLALCHEMY_BINDS={"there": f"sqlite:///{tmp_path}/there.db"},
    )
    db.init_app(app)
    jobs.init_app(app)
    jobs.register("note")(Note)
    with app.app_context():
        db.create_all()
        jobs.driver().prepare()
        for word, end in (("kept", db.session.commit), ("dropped", db.session.rollback)):
            db.session.add_all([Here(), There()])
            db.session.flush()
            jobs.dispatch(Note(word))
            assert jobs.driver().size("default").ready == (0 if word == "kept" else 1)
            end()
        assert jobs.driver().size("default").ready == 1
        app.extensions["flask_jobs"].connections.close()
        for engine in db.engines.values():
            engine.dispose()


# F33


class Counted:
    """Counts the looks of a worker at its store."""

    def __init__(self, driver: Any) -> None:
        self._pop = driver.pop
        self.looks = 0
        driver.pop = self

    def __call__(self, *args: Any) -> Any:
        self.looks += 1
        return self._pop(*args)

    def wait_for_two_more(self) -> None:
        """Until a look has begun and ended after this call."""
        target, deadline = self.looks + 2, time.monotonic() + 10
        while self.looks < target:
            assert time.monotonic() < deadline, "the worker looks no more"
            time.sleep(0.001)


@pytest.fixture(params=["database", "apart"])
def eager(
    request: pytest.FixtureRequest, tmp_path: Path, open_shop: Callable[..., Shop]
) -> Iterator[tuple[Shop, str, Counted]]:
    """A shop, a connection of it, and a worker that looks at it all the time."""
    apart = {"apart": {"driver": "database", "url": f"sqlite:///{tmp_path / 'shop0' / 'apart.db'}"}}
    shop = open_shop(JOBS_CONNECTIONS=apart)
    driver = shop.driver(request.param)
    driver.prepare()
    counted = Counted(driver)
    running = worker(shop.app, request.param, stop_when_empty=False, sleep=0.005)
    thread = threading.Thread(target=running.run)
    thread.start()
    yield shop, request.param, counted
    running.stop()
    thread.join(20)
    assert not thread.is_alive()


def is_empty(shop: Shop, connection: str) -> bool:
    return shop.driver(connection).size("default") == Sizes()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.005)


def test_f33_a_worker_never_finds_a_job_before_its_row(eager: tuple[Shop, str, Counted]) -> None:
    shop, connection, counted = eager

    for number in range(20):
        with shop.context():
            order = Order(state=f"order {number}")
            shop.session.add(order)
            shop.session.flush()
            shop.jobs.dispatch(Ship(order), connection=connection)
            counted.wait_for_two_more()
            assert len(shop.noted) == number
            shop.session.commit()
        # Settled as well, for the next transaction keeps the shared file's only writer waiting.
        wait_for(lambda ran=number + 1: len(shop.noted) == ran and is_empty(shop, connection))

    assert shop.noted == [f"ship order {number}" for number in range(20)]
    assert shop.driver(connection).count_failed() == 0


@pytest.mark.parametrize("eager", ["apart"], indirect=True)
def test_f33_without_waiting_for_the_commit_the_missing_row_is_a_failure(eager: tuple[Shop, str, Counted]) -> None:
    shop, connection, _ = eager

    with shop.context():
        order = Order(state="too late")
        shop.session.add(order)
        shop.session.flush()
        shop.jobs.dispatch(Ship(order), connection=connection, after_commit=False)
        wait_for(lambda: shop.driver(connection).count_failed() == 1)
        shop.session.commit()

    [failed] = shop.driver(connection).failed()
    assert failed.error.type.endswith(ModelNotFound.__name__)
    assert failed.counters.attempts == 1
