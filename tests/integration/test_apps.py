from __future__ import annotations

import contextvars
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, current_app

from flask_jobs import ConfigurationError, Jobs, Status, job_processed
from flask_jobs.drivers.memory import MemoryDriver
from tests.apps import worker
from tests.factory_app import create_app, ledger
from tests.factory_app.billing.work import Bill, Customer, Flaky, Mark
from tests.factory_app.extensions import db, jobs

ROOT = Path(__file__).parent.parent.parent
Make = Callable[..., Flask]


@pytest.fixture
def make_app(tmp_path: Path) -> Iterator[Make]:
    apps: list[Flask] = []

    def make(**config: Any) -> Flask:
        folder = tmp_path / f"app{len(apps)}"
        folder.mkdir()
        apps.append(create_app(str(folder), **config))
        with apps[-1].app_context():
            db.create_all()
            db.session.add(Customer(id=7, name="Ada"))
            db.session.commit()
        return apps[-1]

    yield make
    for app in apps:
        close(app)


def close(app: Flask) -> None:
    app.extensions["flask_jobs"].connections.close()
    with app.app_context():
        db.engine.dispose()


def marks(app: Flask) -> list[str]:
    return [word for kind, word in ledger(app) if kind == "mark"]


# F29


@pytest.mark.parametrize(
    ("config", "link"),
    [
        ({"SERVER_NAME": "shop.example"}, "http://shop.example/bills/7"),
        ({"SERVER_NAME": "shop.example", "PREFERRED_URL_SCHEME": "https"}, "https://shop.example/bills/7"),
        ({"JOBS_BASE_URL": "https://pay.example"}, "https://pay.example/bills/7"),
        ({"JOBS_BASE_URL": "https://pay.example:8443/eu/"}, "https://pay.example:8443/eu/bills/7"),
        ({"SERVER_NAME": "shop.example", "JOBS_BASE_URL": "https://pay.example"}, "https://pay.example/bills/7"),
    ],
)
def test_f29_a_job_has_config_session_templates_and_external_urls(
    make_app: Make, config: dict[str, str], link: str
) -> None:
    app = make_app(**config)
    with app.app_context():
        jobs.dispatch(Bill(db.session.get_one(Customer, 7)))

    worker(app).run()

    assert ledger(app) == [["bill", 1, "CHF", "Dear Ada, pay in CHF.", link, 1], ["teardown", "bill", None]]


@pytest.mark.parametrize("connection", ["database", "sync"])
def test_f29_teardown_runs_once_per_attempt_and_before_the_job_is_done(make_app: Make, connection: str) -> None:
    app = make_app(SERVER_NAME="shop.example")
    order: list[object] = []

    def processed(sender: Flask, **facts: Any) -> None:
        order.append(("processed", sender is app, ledger(app)[-1][0]))

    with job_processed.connected_to(processed), app.app_context():
        jobs.dispatch(Bill(db.session.get_one(Customer, 7)), connection=connection)
        if connection == "database":
            worker(app).run()

    assert order == [("processed", True, "teardown")]
    assert [fact[0] for fact in ledger(app)] == ["bill", "teardown"]


def test_f29_a_failed_attempt_is_torn_down_once_with_its_error(make_app: Make) -> None:
    app = make_app()
    with app.app_context():
        jobs.dispatch(Flaky())

    worker(app).run()

    assert ledger(app) == [
        ["flaky", 1],
        ["teardown", "flaky 1", "ValueError"],
        ["flaky", 2],
        ["teardown", "flaky 2", None],
    ]


def test_f29_a_request_a_command_and_a_thread_with_a_context_can_dispatch(make_app: Make) -> None:
    app = make_app(SERVER_NAME="shop.example")

    def in_a_thread() -> None:
        with app.app_context():
            jobs.dispatch(Mark("thread"))

    request = app.test_client().post("/bills/7").text
    command = app.test_cli_runner().invoke(args=["billing", "send", "7"]).output
    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    worker(app).run()

    assert len(request) == len(command.strip()) == 36
    assert [fact[0] for fact in ledger(app)] == ["bill", "teardown", "bill", "teardown", "mark"]


def test_f29_without_a_context_one_error_says_that_the_app_is_missing(make_app: Make) -> None:
    make_app()
    errors: list[BaseException] = []

    def in_a_thread() -> None:
        try:
            jobs.dispatch(Mark("lost"))
        except ConfigurationError as error:
            errors.append(error)

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()

    assert [str(error).partition(".")[0] for error in errors] == ["There is no app here to dispatch for"]


def test_f29_a_worker_process_started_with_a_factory_runs_the_blueprints_jobs(make_app: Make) -> None:
    pytest.importorskip("flask_jobs.cli", reason="the command line is not there yet")
    app = make_app()
    with app.app_context():
        jobs.dispatch(Bill(db.session.get_one(Customer, 7)))
        jobs.dispatch(Flaky())

    command = [sys.executable, "-m", "flask", "--app", "tests.factory_app:create_app_from_env"]
    done = subprocess.run(
        [*command, "jobs", "work", "--stop-when-empty"],
        cwd=ROOT,
        env={**os.environ, "SHOP_FOLDER": app.instance_path, "SHOP_SERVER_NAME": "shop.example"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert sorted(fact[0] for fact in ledger(app)) == ["bill", "flaky", "flaky", "teardown", "teardown", "teardown"]


# F30


def test_f30_two_apps_of_one_jobs_object_never_see_each_others_jobs(make_app: Make) -> None:
    apps = {"a": make_app(), "b": make_app()}
    barrier = threading.Barrier(8)

    def dispatch(number: int) -> None:
        barrier.wait(10)
        for turn in range(8):
            for name in sorted(apps, reverse=bool((number + turn) % 2)):
                with apps[name].test_request_context():
                    jobs.dispatch(Mark(f"{name} {number}.{turn}"))

    threads = [threading.Thread(target=dispatch, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for app in apps.values():
        worker(app).run()

    for name, app in apps.items():
        assert sorted(marks(app)) == sorted(f"{name} {number}.{turn}" for number in range(8) for turn in range(8))


def test_f30_a_thread_in_a_copied_context_dispatches_for_the_app_of_that_context(make_app: Make) -> None:
    apps = {"a": make_app(), "b": make_app()}
    threads = []
    for name, app in apps.items():
        with app.app_context():
            run = contextvars.copy_context().run
            threads.append(threading.Thread(target=run, args=(jobs.dispatch, Mark(name))))
    with apps["b"].app_context():
        for thread in threads:
            thread.start()
            thread.join()
    for app in apps.values():
        worker(app).run()

    assert {name: marks(app) for name, app in apps.items()} == {"a": ["a"], "b": ["b"]}


def test_f30_an_inner_context_of_another_app_decides(make_app: Make) -> None:
    a, b = make_app(), make_app()
    with a.app_context():
        db.session.add(Customer(name="waits"))
        with b.app_context():
            inner = jobs.dispatch(Mark("b"))
        outer = jobs.dispatch(Mark("a"))
        assert (inner.status, outer.status) == (Status.PUSHED, Status.DEFERRED)
        db.session.commit()
    for app in (a, b):
        worker(app).run()

    assert (marks(a), marks(b)) == (["a"], ["b"])


def test_f30_a_fake_stands_in_for_its_own_app_only(make_app: Make) -> None:
    a, b = make_app(), make_app()
    with a.app_context(), jobs.fake() as queue:
        jobs.dispatch(Mark("a"))
        with b.app_context():
            jobs.dispatch(Mark("b"))
    worker(b).run()

    queue.assert_count(1)
    assert marks(b) == ["b"]


def test_f30_apps_that_are_dropped_are_collected(tmp_path: Path) -> None:
    dropped: list[weakref.ref[Flask]] = []
    connections = {"database": {"url": f"sqlite:///{tmp_path}/jobs.db"}}

    def build(number: int) -> None:
        app = create_app(str(tmp_path), JOBS_CONNECTIONS=connections, SQLALCHEMY_DATABASE_URI="sqlite://")
        with app.test_request_context():
            db.session.execute(db.text("SELECT 1"))
            if number % 10 == 0:
                jobs.dispatch(Mark("x"))
                jobs.dispatch(Mark("y"), connection="sync")
                with jobs.fake() as queue:
                    jobs.dispatch(Mark("z"))
                    queue.drain()
        close(app)
        dropped.append(weakref.ref(app))

    for number in range(200):
        build(number)
    gc.collect()

    assert [ref for ref in dropped if ref() is not None] == []


def test_f30_the_current_app_is_the_real_one_within_a_job(make_app: Make) -> None:
    app = make_app()
    seen: list[Flask] = []

    def processed(sender: Flask, **facts: Any) -> None:
        seen.append(sender)

    with app.app_context(), job_processed.connected_to(processed, current_app._get_current_object()):  # type: ignore[attr-defined]
        jobs.dispatch(Mark("x"), connection="sync")

    assert seen == [app]


@pytest.mark.parametrize("given", [lambda settings, surroundings: None, "mail", MemoryDriver])
def test_what_makes_no_driver_is_refused_where_it_is_given(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"The factory of driver .mail. is .* must be callable"):
        Jobs().extend("mail", given)
