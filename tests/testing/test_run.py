from __future__ import annotations

import datetime as dt
import signal
import threading
from dataclasses import replace
from typing import Any

import pytest

from flask_jobs import InvalidArgument, Job, UnserializableJob, current_job
from flask_jobs.envelope import Counters, Envelope, ErrorRecord, Fail, Reservation
from flask_jobs.outcome import Done, Hopeless, Raised, Released, TimedOut
from tests.apps import Burst, Draft, Note, Order, Ship, Shop, Tidy, note


class Acting(Job):
    """Does what the word says."""

    max_attempts = 3
    backoff = (10, 20)

    def __init__(self, word: str) -> None:
        self.word = word

    def handle(self) -> None:
        note(f"attempt {current_job.attempt}")
        match self.word:
            case "release":
                current_job.release(30)
            case "fail":
                current_job.fail("no use")
            case "delete":
                current_job.delete()
            case "raise":
                raise ValueError("bad luck")
            case "hang":
                threading.Event().wait(30)

    def failed(self, error: BaseException) -> None:
        note(f"failed {type(error).__name__}")


class Awaiting(Job):
    max_attempts = 1

    def __init__(self, word: str) -> None:
        self.word = word

    async def handle(self) -> None:
        raise ValueError(self.word)


@pytest.fixture
def shop(jobs_shop: Shop) -> Shop:
    jobs_shop.jobs.register("acting")(Acting)
    jobs_shop.jobs.register("awaiting")(Awaiting)
    return jobs_shop


def test_a_job_that_returns_is_done(shop: Shop) -> None:
    result = shop.jobs.run(Note("x"))

    result.assert_done()
    assert (result.name, result.outcome, result.error, result.delay, str(result)) == (
        "note",
        Done(),
        None,
        None,
        "done",
    )
    assert (shop.noted, shop.stored()) == (["x"], [])


def test_a_job_that_raises_is_put_back_by_its_backoff(shop: Shop) -> None:
    result = shop.jobs.run(Acting("raise"))

    result.assert_released()
    result.assert_released(10)
    result.assert_released(dt.timedelta(seconds=10), delta=0)
    assert isinstance(result.outcome, Raised)
    assert isinstance(result.error, ValueError)
    assert str(result) == "put back for 10 s (error: ValueError: bad luck)"


def test_the_attempt_can_be_chosen(shop: Shop) -> None:
    shop.jobs.run(Acting("raise"), attempt=2).assert_released(20)
    shop.jobs.run(Acting("raise"), attempt=3).assert_failed_with(ValueError, "bad luck")

    assert shop.noted == ["attempt 2", "attempt 3", "failed ValueError"]


def test_an_attempt_beyond_the_limit_does_not_start_the_body(shop: Shop) -> None:
    from flask_jobs import MaxAttemptsExceeded

    shop.jobs.run(Acting(""), attempt=4).assert_failed_with(MaxAttemptsExceeded)

    assert shop.noted == ["failed MaxAttemptsExceeded"]


@pytest.mark.parametrize("attempt", [0, -1, 1.5, True, "1"])
def test_an_attempt_that_is_no_number_from_one_is_refused(shop: Shop, attempt: Any) -> None:
    with pytest.raises(InvalidArgument, match="attempt"):
        shop.jobs.run(Note("x"), attempt=attempt)


def test_a_job_that_releases_itself_is_put_back(shop: Shop) -> None:
    result = shop.jobs.run(Acting("release"))

    result.assert_released(30)
    assert isinstance(result.outcome, Released)


def test_a_job_that_fails_itself_has_failed(shop: Shop) -> None:
    result = shop.jobs.run(Acting("fail"))

    result.assert_failed()
    assert isinstance(result.outcome, Hopeless)
    assert "no use" in str(result)
    assert shop.noted == ["attempt 1", "failed JobFailed"]


def test_a_job_that_deletes_itself_is_skipped(shop: Shop) -> None:
    result = shop.jobs.run(Acting("delete"))

    result.assert_skipped()
    result.assert_done()
    assert str(result) == "skipped (deleted by the job)"


def test_a_job_whose_row_is_gone_is_skipped_or_fails_by_its_model(shop: Shop) -> None:
    from flask_jobs import ModelNotFound

    order, draft = shop.add_order(), Draft()
    shop.session.add(draft)
    shop.session.commit()
    jobs = [Ship(order), Tidy(draft)]
    for row in (order, draft):
        shop.session.delete(row)
        shop.session.commit()
    # A deleted row is refused at dispatch in the session that knows of it.
    shop.session.expunge_all()
    jobs = [Ship(detached(Order, 1)), Tidy(detached(Draft, 1))]

    shop.jobs.run(jobs[0]).assert_failed_with(ModelNotFound, "order")
    shop.jobs.run(jobs[1]).assert_skipped()


def detached(cls: type[Any], key: int) -> Any:
    """A row as another session once loaded it."""
    from sqlalchemy.orm import make_transient_to_detached

    row = cls(id=key)
    make_transient_to_detached(row)
    return row


def test_a_job_is_run_by_the_time_limit_of_a_worker(shop: Shop) -> None:
    job = Acting("hang")
    job.timeout = 0.05
    before = signal.getsignal(signal.SIGALRM)

    result = shop.jobs.run(job)

    result.assert_released(10)
    assert isinstance(result.outcome, TimedOut)
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_test_runners_own_alarm_runs_on(shop: Shop) -> None:
    before = signal.getitimer(signal.ITIMER_REAL)[0]  # that of pytest-timeout

    shop.jobs.run(Note("x"))

    after = signal.getitimer(signal.ITIMER_REAL)[0]
    assert before - 60 < after <= before
    assert before > 0


def test_the_callers_session_is_left_alone(each_shop: Shop) -> None:
    order = each_shop.add_order("new")
    order.state = "half-way"

    each_shop.jobs.run(Ship(order)).assert_done()

    assert each_shop.noted == ["ship new"]
    assert order in each_shop.session.dirty


def test_what_production_refuses_is_refused(shop: Shop) -> None:
    misused = Note("x")
    misused.backoff = -1

    with pytest.raises(UnserializableJob):
        shop.jobs.run(Note(object()))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"Note\.backoff"):
        shop.jobs.run(misused)
    with pytest.raises(InvalidArgument, match="the class Note"):
        shop.jobs.run(Note)  # type: ignore[arg-type]


def test_neither_a_store_nor_a_key_is_needed(tmp_path: Any) -> None:
    shop = Shop("flask_sqlalchemy", tmp_path, url="sqlite://", SECRET_KEY=None)
    with shop.context():
        shop.jobs.run(Note("x")).assert_done()

    shop.close()


def test_what_the_job_dispatches_goes_where_it_would_go(shop: Shop) -> None:
    class Parent(Job):
        def handle(self) -> None:
            shop.jobs.dispatch(Note("child"))

    shop.jobs.register("parent")(Parent)
    with shop.jobs.fake() as queue:
        shop.jobs.run(Parent()).assert_done()

    queue.assert_pushed_once(Note)


@pytest.mark.parametrize(
    ("word", "assertion", "message"),
    [
        ("", lambda r: r.assert_released(), "acting was not put back: done"),
        ("", lambda r: r.assert_failed(), "acting has not failed for good: done"),
        ("", lambda r: r.assert_skipped(), "acting was not skipped: done"),
        ("raise", lambda r: r.assert_done(), "acting is not done: put back for 10 s (error: ValueError: bad luck)"),
        ("raise", lambda r: r.assert_released(11), "acting was put back for 10 s, not 11: put back"),
        ("fail", lambda r: r.assert_failed_with(ValueError), "acting has not failed with ValueError: failed with"),
        ("fail", lambda r: r.assert_failed_with(Exception, "luck"), "not failed with Exception with 'luck'"),
        ("fail", lambda r: r.assert_done(), "acting is not done: failed with"),
    ],
)
def test_an_assertion_that_fails_says_what_came_of_the_job(shop: Shop, word: str, assertion: Any, message: str) -> None:
    result = shop.jobs.run(Acting(word))

    with pytest.raises(AssertionError) as caught:
        assertion(result)

    assert message in str(caught.value)
    assert caught.value.__cause__ is result.error


def test_the_traceback_of_a_failure_begins_in_the_job_also_where_it_is_a_coroutine(shop: Shop) -> None:
    result = shop.jobs.run(Awaiting("x"))

    assert isinstance(result.settlement, Fail)
    told = result.settlement.error.traceback.splitlines()
    assert "test_run.py" in told[1]
    assert "in handle" in told[1]
    assert told[-1] == "ValueError: x"


def test_the_traceback_of_a_failure_on_the_way_to_the_job_is_whole(shop: Shop) -> None:
    result = shop.jobs.run(Acting("x"), attempt=4)

    assert isinstance(result.settlement, Fail)
    assert "MaxAttemptsExceeded" in result.settlement.error.traceback


def test_a_result_is_shown_in_one_short_line(shop: Shop) -> None:
    result = shop.jobs.run(Acting("raise"))

    assert repr(result) == "<Result acting: put back for 10 s (error: ValueError: bad luck)>"
    assert len(repr(replace(result, name="x" * 10, settlement=failure("y" * 10_000)))) < 250


def failure(message: str) -> Fail:
    envelope = Envelope("1", "acting", "default", "{}")
    reservation = Reservation(envelope, Counters(), receipt="", now=0.0, pushed_at=0.0)
    return Fail(reservation, ErrorRecord("ValueError", message), Counters())


def test_a_job_that_swallows_nothing_of_the_run_leaves_no_context(shop: Shop) -> None:
    shop.jobs.run(Burst("x"))

    with pytest.raises(RuntimeError, match="No job is running"):
        _ = current_job.id
