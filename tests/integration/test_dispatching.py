from __future__ import annotations

import datetime as dt
import json
import logging
import shutil
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from flask import Flask
from sqlalchemy.orm import sessionmaker

from flask_jobs import (
    ConfigurationError,
    InvalidArgument,
    Job,
    Jobs,
    NotRegistered,
    PushFailed,
    Status,
    StoreRefused,
    UnserializableJob,
    job_discarded,
    job_dispatched,
)
from flask_jobs.stored import State
from tests.apps import Burst, Note, Order, Ship, Shop

Open = Callable[..., Shop]
TWO = {"JOBS_CONNECTIONS": {"other": {"driver": "database", "url": None, "queue": "others"}}}


def at(folder: Path, name: str, **more: object) -> dict[str, Any]:
    """Settings of a connection on a database file of its own."""
    return {name: {"driver": "database", "url": f"sqlite:///{folder / name}.db", **more}}


@contextmanager
def signals(signal: Any) -> Iterator[list[dict[str, Any]]]:
    heard: list[dict[str, Any]] = []

    def hear(sender: object, **facts: Any) -> None:
        heard.append(facts)

    with signal.connected_to(hear):
        yield heard


def nightly(day: str) -> None:
    pass


# Where a job goes


def test_a_job_goes_to_the_default_connection_and_its_queue(jobs_shop: Shop) -> None:
    answer = jobs_shop.jobs.dispatch(Note("x"))

    assert answer.status is Status.PUSHED
    stored = jobs_shop.driver().find(answer.id)
    assert (stored.envelope.name, stored.envelope.queue) == ("note", "default")


@pytest.mark.parametrize(
    ("call", "own", "queue"),
    [(None, None, "others"), (None, "slow", "slow"), ("fast", "slow", "fast"), ("fast", None, "fast")],
)
def test_the_queue_is_what_the_call_says_else_the_class_else_the_connection(
    open_shop: Open, call: str | None, own: str | None, queue: str
) -> None:
    shop = open_shop(**TWO)
    shop.jobs.register("routed")(type("Routed", (Job,), {"queue": own, "handle": lambda self: None}))
    job = shop.jobs.registry.job_class("routed")()

    with shop.context():
        answer = shop.jobs.dispatch(job, connection="other", queue=call)

    assert shop.driver("other").find(answer.id).envelope.queue == queue


@pytest.mark.parametrize(
    ("call", "own", "used"), [(None, None, "database"), (None, "one", "one"), ("two", "one", "two")]
)
def test_the_connection_is_what_the_call_says_else_the_class_else_the_default(
    open_shop: Open, tmp_path: Path, call: str | None, own: str | None, used: str
) -> None:
    shop = open_shop(JOBS_CONNECTIONS={**at(tmp_path, "one"), **at(tmp_path, "two")})
    shop.jobs.register("routed")(type("Routed", (Job,), {"connection": own, "handle": lambda self: None}))
    job = shop.jobs.registry.job_class("routed")()

    with shop.context():
        shop.jobs.dispatch(job, connection=call)

    sizes = {name: shop.driver(name).size("default").ready for name in ("database", "one", "two")}
    assert sizes == {"database": 0, "one": 0, "two": 0, used: 1}


def test_options_set_on_the_instance_route_it_as_well(open_shop: Open) -> None:
    shop = open_shop(**TWO)
    job = Note("x")
    job.queue, job.connection = "mine", "other"

    with shop.context():
        answer = shop.jobs.dispatch(job)

    assert shop.driver("other").find(answer.id).envelope.queue == "mine"


@pytest.mark.parametrize(
    ("call", "own", "connection", "status"),
    [
        (None, None, True, Status.DEFERRED),
        (None, None, False, Status.PUSHED),
        (None, True, False, Status.DEFERRED),
        (None, False, True, Status.PUSHED),
        (True, False, False, Status.DEFERRED),
        (False, True, True, Status.PUSHED),
    ],
)
def test_waiting_for_the_commit_is_what_the_call_says_else_the_class_else_the_connection(
    open_shop: Open, tmp_path: Path, call: bool | None, own: bool | None, connection: bool, status: Status
) -> None:
    shop = open_shop(JOBS_CONNECTIONS=at(tmp_path, "apart", after_commit=connection))
    shop.jobs.register("waiting")(type("Waiting", (Job,), {"after_commit": own, "handle": lambda self: None}))
    job = shop.jobs.registry.job_class("waiting")()

    with shop.context():
        shop.session.add(Order())
        answer = shop.jobs.dispatch(job, connection="apart", after_commit=call)

        assert answer.status is status


@pytest.mark.parametrize(("call", "own", "status"), [(None, True, Status.PUSHED), (True, None, Status.DEFERRED)])
def test_a_transaction_that_only_read_is_waited_for_only_if_the_call_says_so(
    each_shop: Shop, call: bool | None, own: bool | None, status: Status
) -> None:
    each_shop.add_order()
    order = each_shop.session.scalars(sa.select(Order)).one()
    job = Ship(order)
    if own is not None:
        job.after_commit = own

    answer = each_shop.jobs.dispatch(job, after_commit=call)

    assert answer.status is status


def test_an_unknown_connection_is_named_with_those_that_exist(jobs_shop: Shop) -> None:
    with pytest.raises(InvalidArgument, match=r"no connection 'redsi'; known are database, redis, sync"):
        jobs_shop.jobs.dispatch(Note("x"), connection="redsi")


@pytest.mark.parametrize("queue", ["a:b", "a b", "", "ünï", "x" * 81, "a\n"])
def test_a_queue_that_no_worker_could_serve_is_refused_before_anything_is_sent(jobs_shop: Shop, queue: str) -> None:
    with pytest.raises(InvalidArgument, match="is no queue name"):
        jobs_shop.jobs.dispatch(Note("x"), queue=queue)

    assert jobs_shop.rows("SELECT name FROM sqlite_master WHERE name LIKE 'flask_jobs%'") == []


# When it is due


@pytest.mark.parametrize("delay", [90, 90.0, dt.timedelta(seconds=90)])
def test_a_delay_is_counted_from_the_dispatch(jobs_shop: Shop, delay: Any) -> None:
    before = time.time()

    answer = jobs_shop.jobs.dispatch(Note("x"), delay=delay)

    stored = jobs_shop.driver().find(answer.id)
    assert stored.state is State.DELAYED
    assert before + 89.9 <= stored.due <= time.time() + 90.1


def test_an_aware_datetime_is_the_instant_itself(jobs_shop: Shop) -> None:
    zone = dt.timezone(dt.timedelta(hours=5, minutes=45))
    when = dt.datetime(2099, 1, 31, 12, 0, tzinfo=zone)

    answer = jobs_shop.jobs.dispatch(Note("x"), delay=when)

    assert jobs_shop.driver().find(answer.id).due == pytest.approx(when.timestamp(), abs=0.01)


@pytest.mark.parametrize(
    ("delay", "message"),
    [
        (dt.datetime(2099, 1, 1), "without a time zone"),
        (-1, "0 or more"),
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        (dt.timedelta(seconds=-1), "0 or more"),
        ("5", "seconds or a timedelta, not str"),
        (True, "seconds or a timedelta, not bool"),
    ],
)
def test_a_delay_that_means_nothing_is_refused(jobs_shop: Shop, delay: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        jobs_shop.jobs.dispatch(Note("x"), delay=delay)

    assert jobs_shop.stored() == []


def test_a_job_sent_to_the_front_is_run_first(jobs_shop: Shop) -> None:
    for word in ("first", "second"):
        jobs_shop.jobs.dispatch(Note(word))
    jobs_shop.jobs.dispatch(Note("urgent"), front=True)

    jobs_shop.work()

    assert jobs_shop.noted == ["urgent", "first", "second"]


# Once by its id


def test_a_repeated_id_is_stored_and_told_of_once(jobs_shop: Shop) -> None:
    identity = uuid.uuid4()

    with signals(job_dispatched) as heard:
        answers = [jobs_shop.jobs.dispatch(Note("x"), id=given) for given in (identity, str(identity).upper())]

    assert [answer.id for answer in answers] == [str(identity)] * 2
    assert all(answer.status is Status.PUSHED and answer for answer in answers)
    assert jobs_shop.stored() == ["note"]
    assert len(heard) == 1


def test_an_id_is_known_after_its_job_has_ended(jobs_shop: Shop) -> None:
    identity = uuid.uuid4()
    jobs_shop.jobs.dispatch(Note("x"), id=identity)
    jobs_shop.work()

    jobs_shop.jobs.dispatch(Note("x"), id=identity)
    jobs_shop.work()

    assert jobs_shop.noted == ["x"]


def test_a_repeated_id_in_a_transaction_is_stored_and_told_of_once(each_shop: Shop) -> None:
    identity = uuid.uuid4()
    each_shop.jobs.dispatch(Note("x"), id=identity)

    with signals(job_dispatched) as heard:
        each_shop.session.add(Order())
        each_shop.jobs.dispatch(Note("x"), id=identity)
        each_shop.session.commit()

    assert each_shop.stored() == ["note"]
    assert heard == []


@pytest.mark.parametrize("given", ["order-7", 7, ""])
def test_an_id_that_is_no_uuid_is_refused(jobs_shop: Shop, given: Any) -> None:
    with pytest.raises(InvalidArgument, match="is no job id"):
        jobs_shop.jobs.dispatch(Note("x"), id=given)


# Many at once


def test_many_jobs_are_stored_in_order_in_one_transaction(jobs_shop: Shop) -> None:
    answers = jobs_shop.jobs.dispatch_many((Note(str(n)) for n in range(2_500)), queue="bulk")

    assert len({answer.id for answer in answers}) == 2_500
    assert jobs_shop.driver().size("bulk").ready == 2_500
    jobs_shop.work(queues=("bulk",), max_jobs=3)
    assert jobs_shop.noted == ["0", "1", "2"]


def test_if_one_of_many_cannot_be_stored_none_is(jobs_shop: Shop) -> None:
    with pytest.raises(UnserializableJob, match=r"note cannot be stored: word"):
        jobs_shop.jobs.dispatch_many([Note("good"), Note(object())])  # type: ignore[arg-type]

    assert jobs_shop.stored() == []


def test_many_jobs_of_several_connections_are_told_apart(open_shop: Open) -> None:
    shop = open_shop(**TWO)
    elsewhere = Note("b")
    elsewhere.connection = "other"

    with shop.context():
        answers = shop.jobs.dispatch_many([Note("a"), elsewhere, Note("c")])

    queues = [shop.driver().find(answer.id).envelope.queue for answer in answers]
    assert queues == ["default", "others", "default"]


def test_of_many_jobs_those_wait_that_have_to(jobs_shop: Shop) -> None:
    at_once = Note("now")
    at_once.connection, at_once.after_commit = "sync", False
    jobs_shop.session.add(Order())

    answers = jobs_shop.jobs.dispatch_many([at_once, Note("then")])

    assert [answer.status for answer in answers] == [Status.RAN, Status.DEFERRED]
    assert jobs_shop.noted == ["now"]


def test_jobs_whose_making_is_the_first_use_of_the_session_wait_for_its_commit(each_shop: Shop) -> None:
    def ordered() -> Iterator[Job]:
        for state in ("paid", "sent"):
            order = Order(state=state)
            each_shop.session.add(order)
            each_shop.session.flush()
            yield Ship(order)

    answers = each_shop.jobs.dispatch_many(ordered())

    assert [answer.status for answer in answers] == [Status.DEFERRED] * 2
    each_shop.session.commit()
    assert each_shop.stored() == ["ship"] * 2


# With the transaction


def test_a_dispatch_waits_for_the_commit_and_becomes_visible_with_it(each_shop: Shop) -> None:
    each_shop.session.add(Order(state="paid"))
    answer = each_shop.jobs.dispatch(Note("x"))

    assert (answer.status, each_shop.stored()) == (Status.DEFERRED, [])
    with signals(job_dispatched) as heard:
        each_shop.session.commit()

    assert (answer.status, each_shop.stored()) == (Status.PUSHED, ["note"])
    assert [facts["job_id"] for facts in heard] == [answer.id]


def test_the_tables_are_made_in_the_apps_own_transaction_on_first_use(each_shop: Shop) -> None:
    each_shop.session.add(Order(state="paid"))
    each_shop.session.flush()  # holds the file's write lock, so that no second connection could make them

    each_shop.jobs.dispatch(Note("x"))
    each_shop.session.commit()

    assert each_shop.stored() == ["note"]
    each_shop.work()
    assert each_shop.noted == ["x"]


def test_job_and_data_are_committed_together_or_not_at_all(each_shop: Shop) -> None:
    seen: list[tuple[int, int]] = []

    def look(connection: sa.Connection) -> None:
        orders = connection.exec_driver_sql("SELECT count(*) FROM orders").scalar_one()
        jobs = connection.exec_driver_sql("SELECT count(*) FROM flask_jobs").scalar_one()
        seen.append((orders, jobs))
        raise RuntimeError("the commit is refused")

    order = Order(state="paid")
    each_shop.session.add(order)
    answer = each_shop.jobs.dispatch(Note("x"))
    sa.event.listen(each_shop.engine, "commit", look)
    with pytest.raises(RuntimeError):
        each_shop.session.commit()
    sa.event.remove(each_shop.engine, "commit", look)
    each_shop.session.rollback()
    each_shop.session.close()
    each_shop.engine.dispose()

    assert seen == [(1, 1)]
    assert each_shop.rows("SELECT count(*) FROM orders") == [(0,)]
    assert each_shop.stored() == []
    assert answer.status is Status.DISCARDED


@pytest.mark.parametrize("end", ["rollback", "close"])
def test_a_job_goes_away_with_its_transaction(each_shop: Shop, end: str, caplog: pytest.LogCaptureFixture) -> None:
    each_shop.session.add(Order(state="paid"))
    answers = [each_shop.jobs.dispatch(Note(word)) for word in ("x", "y")]

    with signals(job_discarded) as heard, caplog.at_level(logging.WARNING, "flask_jobs.lifecycle"):
        getattr(each_shop.session, end)()

    assert [answer.status for answer in answers] == [Status.DISCARDED] * 2
    assert [answer.id for answer in answers] == [facts["job_id"] for facts in heard]
    assert each_shop.stored() == []
    lines = [r.getMessage() for r in caplog.records if answers[0].id in r.getMessage()]
    assert len(lines) == 1
    assert lines[0].startswith("discarded, because")
    assert answers[1].id in lines[0]


def test_a_savepoint_that_is_first_in_its_transaction_does_not_commit_it(each_shop: Shop) -> None:
    with each_shop.session.begin_nested():
        each_shop.session.add(Order(state="paid"))
        each_shop.jobs.dispatch(Note("x"))
    assert each_shop.rows("SELECT state FROM orders") == []

    each_shop.session.rollback()

    assert each_shop.rows("SELECT state FROM orders") == []
    assert each_shop.stored() == []


def test_within_after_commit_every_dispatch_waits_for_the_next_commit(each_shop: Shop) -> None:
    with each_shop.jobs.after_commit():
        answers = [each_shop.jobs.dispatch(Note("x")), *each_shop.jobs.dispatch_many([Note("y")])]
        exempt = each_shop.jobs.dispatch(Note("now"), after_commit=False)

    assert [answer.status for answer in answers] == [Status.DEFERRED, Status.DEFERRED]
    assert exempt.status is Status.PUSHED
    each_shop.session.commit()
    assert [answer.status for answer in answers] == [Status.PUSHED, Status.PUSHED]


def test_a_block_that_waits_has_to_know_whose_commit(tmp_path: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    jobs = Jobs(session=sessionmaker(engine))
    app = Flask("bare", instance_path=str(tmp_path))
    app.secret_key = "x"
    jobs.init_app(app)
    jobs.register("note")(Note)

    with app.app_context(), jobs.after_commit():
        with pytest.raises(InvalidArgument, match="session=session"):
            jobs.dispatch(Note("x"))
        with sessionmaker(engine)() as session:
            answer = jobs.dispatch(Note("x"), session=session)
            assert answer.status is Status.DEFERRED
            session.commit()

    assert answer.status is Status.PUSHED
    app.extensions["flask_jobs"].connections.close()
    engine.dispose()


def test_a_call_may_name_the_session_or_its_scope(open_shop: Open) -> None:
    shop = open_shop()
    with shop.context():
        for session in (shop.session, shop.session()):
            session.add(Order())
            answer = shop.jobs.dispatch(Note("x"), session=session)
            assert answer.status is Status.DEFERRED
            session.rollback()
        with pytest.raises(InvalidArgument, match="session takes a SQLAlchemy Session"):
            shop.jobs.dispatch(Note("x"), session=shop.engine)  # type: ignore[arg-type]


def test_making_the_driver_leaves_the_callers_session_alone(open_shop: Open) -> None:
    shop = open_shop("scoped_session")  # its teardown removes the session of the thread, as Flask's pattern has it
    with shop.context():
        shop.session.add(Order(state="kept"))
        shop.session.flush()
        shop.jobs.dispatch(Note("x"))
        shop.session.commit()

    assert shop.rows("SELECT state FROM orders") == [("kept",)]


def test_making_the_driver_outside_a_context_leaves_the_threads_session_alone(open_shop: Open) -> None:
    shop = open_shop("scoped_session")
    shop.session.add(Order(state="kept"))
    shop.session.flush()

    shop.driver()

    shop.session.commit()
    shop.session.remove()
    assert shop.rows("SELECT state FROM orders") == [("kept",)]


def test_a_dispatch_runs_no_teardown_functions(each_shop: Shop) -> None:
    torn_down: list[object] = []
    each_shop.app.teardown_appcontext(torn_down.append)

    each_shop.jobs.dispatch(Note("x"))

    assert torn_down == []


def test_sessions_are_found_that_are_initialised_within_a_context(tmp_path: Path) -> None:
    from flask_sqlalchemy import SQLAlchemy

    app = Flask("late", instance_path=str(tmp_path))
    app.config.update(SECRET_KEY="x", SQLALCHEMY_DATABASE_URI=f"sqlite:///{tmp_path / 'late.db'}")
    jobs = Jobs(app)
    jobs.register("note")(Note)
    db = SQLAlchemy()
    with app.app_context():
        db.init_app(app)
        Order.metadata.create_all(db.engine)

    with app.app_context():
        db.session.add(Order())
        answer = jobs.dispatch(Note("x"))
        assert answer.status is Status.DEFERRED
        db.session.commit()
        db.engine.dispose()

    assert answer.status is Status.PUSHED
    app.extensions["flask_jobs"].connections.close()


# What cannot be stored after the commit


@pytest.fixture
def broken(open_shop: Open, tmp_path: Path) -> Iterator[Shop]:
    """A shop with a connection on a file that is no database, and a good one beside it."""
    (tmp_path / "bad.db").write_text("this is no database, " * 100)
    shop = open_shop(JOBS_CONNECTIONS={**at(tmp_path, "bad"), **at(tmp_path, "good")})
    with shop.context():
        yield shop


def test_one_error_names_every_job_that_is_not_stored_and_the_rest_is(broken: Shop) -> None:
    broken.session.add(Order(state="paid"))
    lost = [broken.jobs.dispatch(Note(word), connection="bad") for word in ("a", "b")]
    kept = [broken.jobs.dispatch(Note("c"), connection="good"), broken.jobs.dispatch(Note("d"))]

    with pytest.raises(PushFailed) as caught:
        broken.session.commit()

    error = caught.value
    assert error.ids == tuple(answer.id for answer in lost)
    assert all(answer.id in str(error) for answer in lost)
    assert "jobs.push_again(error, connection='bad')" in str(error)
    assert isinstance(error.__cause__, StoreRefused)
    assert [answer.status for answer in (*lost, *kept)] == [Status.FAILED] * 2 + [Status.PUSHED] * 2
    assert broken.rows("SELECT state FROM orders") == [("paid",)]
    assert broken.driver("good").size("default").ready == 1


def test_the_recovery_log_has_what_is_needed_to_push_again(broken: Shop, caplog: pytest.LogCaptureFixture) -> None:
    broken.session.add(Order())
    broken.jobs.dispatch(Note("again"), connection="bad", queue="letters")
    with pytest.raises(PushFailed) as caught, caplog.at_level(logging.ERROR, "flask_jobs.recovery"):
        broken.session.commit()
    [line] = [record.getMessage() for record in caplog.records if record.name == "flask_jobs.recovery"]
    logged = json.loads(line.partition(": ")[2])

    broken.jobs.push_again(caught.value, connection="good")

    assert logged["connection"] == "bad"
    assert (logged["id"], logged["name"], logged["queue"]) == (caught.value.ids[0], "note", "letters")
    stored = broken.driver("good").find(logged["id"])
    assert stored.envelope.body == logged["body"]
    broken.work("good", queues=("letters",))
    assert broken.noted == ["again"]


def test_a_sensitive_job_is_only_named_in_the_recovery_log(broken: Shop, caplog: pytest.LogCaptureFixture) -> None:
    class Secret(Note):
        sensitive = ("word",)

    broken.jobs.register("secret")(Secret)
    broken.session.add(Order())
    broken.jobs.dispatch(Secret("hunter2"), connection="bad")

    with pytest.raises(PushFailed), caplog.at_level(logging.DEBUG):
        broken.session.commit()

    [line] = [record.getMessage() for record in caplog.records if record.name == "flask_jobs.recovery"]
    assert '"body": null' in line
    assert "hunter2" not in caplog.text


def test_a_directory_that_is_missing_is_a_failed_push_as_well(open_shop: Open, tmp_path: Path) -> None:
    shop = open_shop(JOBS_CONNECTIONS=at(tmp_path / "nowhere", "gone"))
    with shop.context():
        shop.session.add(Order())
        answer = shop.jobs.dispatch(Note("x"), connection="gone")

        with pytest.raises(PushFailed, match="there is no directory") as caught:
            shop.session.commit()

    assert caught.value.ids == (answer.id,)


def test_a_sync_job_that_fails_after_the_commit_raises_its_own_error_and_the_others_run(jobs_shop: Shop) -> None:
    jobs_shop.session.add(Order(state="paid"))
    answers = jobs_shop.jobs.dispatch_many([Burst("one"), Note("two"), Burst("three")], connection="sync")

    with pytest.raises(ValueError, match="burst one") as caught:
        jobs_shop.session.commit()

    assert "1 more" in caught.value.__notes__[0]
    assert jobs_shop.noted == ["one", "one failed: ValueError", "two", "three", "three failed: ValueError"]
    assert [answer.status for answer in answers] == [Status.RAN] * 3
    assert jobs_shop.rows("SELECT state FROM orders") == [("paid",)]
    jobs_shop.session.add(Order())  # the session is usable again
    jobs_shop.session.commit()


def test_an_unsendable_and_a_failing_job_of_one_commit_are_both_reported(broken: Shop) -> None:
    broken.session.add(Order())
    broken.jobs.dispatch(Burst("sync"), connection="sync")
    lost = broken.jobs.dispatch(Note("x"), connection="bad")

    with pytest.raises(PushFailed) as caught:
        broken.session.commit()

    assert caught.value.ids == (lost.id,)
    assert [type(cause) for cause in caught.value.causes] == [StoreRefused, ValueError]


# What cannot be dispatched


def test_without_an_app_context_the_error_says_what_to_write(open_shop: Open) -> None:
    shop = open_shop()

    with pytest.raises(ConfigurationError, match=r"with app\.app_context\(\)"):
        shop.jobs.dispatch(Note("x"))


def test_an_app_without_jobs_is_named() -> None:
    with Flask("plain").app_context(), pytest.raises(ConfigurationError, match=r"'plain' has no Jobs.*init_app"):
        Jobs().dispatch(Note("x"))


def test_an_app_of_another_jobs_object_is_named(jobs_shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="'shop' was initialised with another Jobs object"):
        Jobs().dispatch(Note("x"))


def test_an_app_is_given_its_jobs_once(jobs_shop: Shop) -> None:
    with pytest.raises(ConfigurationError, match="has its Jobs already"):
        Jobs().init_app(jobs_shop.app)


def test_without_a_secret_key_nothing_is_stored_but_sync_and_fake_work(open_shop: Open) -> None:
    shop = open_shop(SECRET_KEY=None)
    with shop.context():
        with pytest.raises(ConfigurationError, match=r"SECRET_KEY.*JOBS_SIGN = False"):
            shop.jobs.dispatch(Note("x"))
        shop.jobs.dispatch(Note("sync"), connection="sync")
        with shop.jobs.fake() as queue:
            shop.jobs.dispatch(Note("x"))

    queue.assert_pushed(Note)
    assert (shop.noted, shop.stored()) == (["sync"], [])


def test_without_a_secret_key_no_worker_runs_what_anybody_may_have_written(open_shop: Open) -> None:
    shop = open_shop(SECRET_KEY=None)

    with pytest.raises(ConfigurationError, match=r"SECRET_KEY.*JOBS_SIGN = False"):
        shop.worker()


def test_a_secret_key_that_is_set_after_the_first_job_signs_from_then_on(open_shop: Open) -> None:
    shop = open_shop(SECRET_KEY=None)
    with shop.context():
        shop.jobs.dispatch(Note("sync"), connection="sync")
        shop.app.config["SECRET_KEY"] = "now"
        answer = shop.jobs.dispatch(Note("x"))

    body = shop.driver().find(answer.id).envelope.body
    assert not body.endswith("}")
    shop.work()
    assert shop.noted == ["sync", "x"]


def test_signing_can_be_turned_off_on_purpose(open_shop: Open) -> None:
    shop = open_shop(SECRET_KEY=None, JOBS_SIGN=False)
    with shop.context():
        answer = shop.jobs.dispatch(Note("x"))

    assert shop.driver().find(answer.id).envelope.body.endswith("}")
    shop.work()
    assert shop.noted == ["x"]


def test_jobs_outlive_a_change_of_the_secret_key(open_shop: Open) -> None:
    shop = open_shop(SECRET_KEY="old")
    with shop.context():
        shop.jobs.dispatch(Note("x"))
    later = Shop("flask_sqlalchemy", shop.file.parent, SECRET_KEY="new", SECRET_KEY_FALLBACKS=["old"])

    later.work()
    later.close()

    assert later.noted == ["x"]


def test_a_payload_beyond_the_limit_is_refused_with_both_sizes(open_shop: Open) -> None:
    shop = open_shop(JOBS_MAX_PAYLOAD=1_000)
    with shop.context(), pytest.raises(UnserializableJob, match=r"note takes 1\d\d\d bytes.*allows 1000"):
        shop.jobs.dispatch(Note("x" * 1_000))

    assert shop.stored() == []


def test_a_job_that_does_nothing_is_refused_before_anything_is_stored(jobs_shop: Shop) -> None:
    @jobs_shop.jobs.register("send-letter")
    class SendLetter(Job):
        def perform(self) -> None: ...

    with pytest.raises(InvalidArgument, match=r"SendLetter has no handle\(\) method"):
        jobs_shop.jobs.dispatch(SendLetter())

    assert jobs_shop.stored() == []


def test_an_unregistered_job_is_refused_with_what_to_write(jobs_shop: Shop) -> None:
    class SendLetter(Job):
        pass

    with pytest.raises(NotRegistered, match=r'@jobs\.register\("send-letter"\)'):
        jobs_shop.jobs.dispatch(SendLetter())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda shop: shop.jobs.task("counted")(nightly), r"nightly is a task: call it with its arguments"),
        (lambda shop: Note, r"this is the class Note: call it with its arguments"),
        (lambda shop: nightly, r"this is the function nightly: put @jobs\.task\('some\.name'\) above it"),
        (lambda shop: "note", r"this is an object of type str"),
    ],
)
def test_what_is_no_job_is_refused_with_what_to_write(jobs_shop: Shop, make: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        jobs_shop.jobs.dispatch(make(jobs_shop))


def test_a_row_that_was_never_flushed_is_refused(each_shop: Shop) -> None:
    order = Order()
    each_shop.session.add(order)

    with pytest.raises(UnserializableJob, match=r"order is a new Order.*flush\(\)"):
        each_shop.jobs.dispatch(Ship(order))


def test_a_job_with_an_impossible_option_is_refused(jobs_shop: Shop) -> None:
    job = Note("x")
    job.timeout = -1

    with pytest.raises(InvalidArgument, match=r"Note\.timeout"):
        jobs_shop.jobs.dispatch(job)


def test_an_option_that_only_equals_one_that_passed_is_refused(jobs_shop: Shop) -> None:
    fine, wrong = Note("x"), Note("x")
    fine.max_attempts, wrong.max_attempts = 1, True
    jobs_shop.jobs.dispatch(fine)

    with pytest.raises(InvalidArgument, match=r"Note\.max_attempts must be a whole number of 0 or more, not True"):
        jobs_shop.jobs.dispatch(wrong)


def test_an_option_that_was_changed_after_it_passed_is_checked_anew(jobs_shop: Shop) -> None:
    pauses: list[Any] = [1, 2]
    job = Note("x")
    job.backoff = pauses
    jobs_shop.jobs.dispatch(job)
    pauses.append("soon")

    with pytest.raises(InvalidArgument, match=r"Note\.backoff\[2\] must be seconds"):
        jobs_shop.jobs.dispatch(job)


# Stores that refuse


@pytest.mark.parametrize("deferred", [False, True])
def test_an_in_memory_database_is_refused_at_the_dispatch(tmp_path: Path, deferred: bool) -> None:
    shop = Shop("flask_sqlalchemy", tmp_path, url="sqlite://")
    with shop.context():
        if deferred:
            shop.session.add(Order())

        with pytest.raises(ConfigurationError, match=r"jobs\.fake\(\).*'sync'.*file"):
            shop.jobs.dispatch(Note("x"))

        shop.session.rollback()
    shop.close()


def test_init_app_does_not_mind_an_in_memory_database_and_the_fake_works_on_it(tmp_path: Path) -> None:
    shop = Shop("flask_sqlalchemy", tmp_path, url="sqlite://")
    with shop.context():
        Order.metadata.create_all(shop.engine)
        order = shop.add_order("paid")
        with shop.jobs.fake() as queue:
            shop.jobs.dispatch(Ship(order))
            queue.assert_pushed(Ship, lambda job: job.order.state == "paid")
            queue.drain()

    assert shop.noted == ["ship paid"]
    shop.close()


def test_without_a_database_jobs_are_kept_in_the_instance_folder(tmp_path: Path) -> None:
    app = Flask("bare", instance_path=str(tmp_path / "new" / "instance"))
    app.secret_key = "x"
    jobs = Jobs(app)
    jobs.register("note")(Note)

    with app.app_context():
        answer = jobs.dispatch(Note("x"))

        assert jobs.driver().find(answer.id) is not None  # type: ignore[attr-defined]
    assert (tmp_path / "new" / "instance" / "jobs.sqlite").exists()
    app.extensions["flask_jobs"].connections.close()


def test_an_instance_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    app = Flask("bare", instance_path=str(tmp_path / "file" / "instance"))
    app.secret_key = "x"
    jobs = Jobs(app)
    jobs.register("note")(Note)

    with app.app_context(), pytest.raises(ConfigurationError, match=r"instance folder .* cannot be made"):
        jobs.dispatch(Note("x"))


def test_a_database_that_may_only_be_read_is_named_and_nothing_is_written(open_shop: Open, tmp_path: Path) -> None:
    shop = open_shop(JOBS_CONNECTIONS=at(tmp_path, "other"))
    with shop.context():
        shop.jobs.dispatch(Note("first"), connection="other")
    shop.driver("other").close()
    read_only = f"sqlite:///file:{tmp_path / 'other.db'}?mode=ro&uri=true"
    again = open_shop(JOBS_CONNECTIONS={"other": {"driver": "database", "url": read_only}})

    with again.context(), pytest.raises(StoreRefused, match=r"other\.db.* is read-only; nothing was written"):
        again.jobs.dispatch(Note("second"), connection="other")

    assert again.stored(tmp_path / "other.db") == ["note"]


def test_a_full_disk_is_named_and_nothing_is_half_written(open_shop: Open, tmp_path: Path) -> None:
    shop = open_shop(JOBS_CONNECTIONS=at(tmp_path, "small"))
    with shop.context():
        shop.jobs.dispatch(Note("first"), connection="small")
        engine = shop.driver("small").engine
        sa.event.listen(engine, "connect", lambda raw, record: raw.execute("PRAGMA max_page_count = 40"))
        engine.dispose()

        with pytest.raises(StoreRefused, match=r"No space is left for .*small\.db; nothing was written"):
            shop.jobs.dispatch_many([Note("x" * 4_000) for _ in range(100)], connection="small")

    assert shop.stored(tmp_path / "small.db") == ["note"]


def test_a_full_disk_within_the_apps_transaction_rolls_it_back_whole(each_shop: Shop) -> None:
    each_shop.jobs.dispatch(Note("first"))
    each_shop.session.close()
    sa.event.listen(each_shop.engine, "connect", lambda raw, record: raw.execute("PRAGMA max_page_count = 40"))
    each_shop.engine.dispose()
    each_shop.session.add(Order(state="paid"))
    answers = each_shop.jobs.dispatch_many([Note("x" * 4_000) for _ in range(100)])

    with pytest.raises(StoreRefused, match="No space is left"):
        each_shop.session.commit()
    each_shop.session.rollback()

    assert {answer.status for answer in answers} == {Status.DISCARDED}
    assert each_shop.rows("SELECT state FROM orders") == []
    assert each_shop.stored() == ["note"]


def test_a_database_that_stays_locked_is_named(open_shop: Open, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'locked.db'}?timeout=0.05"
    engine = sa.create_engine(url)
    shop = open_shop(JOBS_CONNECTIONS={"locked": {"driver": "database", "engine": engine}})
    with shop.context():
        shop.jobs.dispatch(Note("first"), connection="locked")
        holder = sqlite3.connect(tmp_path / "locked.db", isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")

        with pytest.raises(StoreRefused, match="stayed locked by another transaction"):
            shop.jobs.dispatch(Note("second"), connection="locked")

        holder.execute("ROLLBACK")
        holder.close()
    engine.dispose()


def test_a_file_that_was_removed_is_made_again(open_shop: Open, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    shop = open_shop(JOBS_CONNECTIONS=at(tmp_path / "folder", "gone"))
    with shop.context():
        shop.jobs.dispatch(Note("x"), connection="gone")
        shop.driver("gone").close()
        shutil.rmtree(tmp_path / "folder")
        (tmp_path / "folder").mkdir()

        with pytest.raises(ConfigurationError, match="tables of flask_jobs are missing"):
            shop.jobs.dispatch(Note("y"), connection="gone")
        answer = shop.jobs.dispatch(Note("y"), connection="gone")

    assert shop.driver("gone").find(answer.id) is not None
