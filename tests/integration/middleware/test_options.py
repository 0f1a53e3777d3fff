"""What middleware is told to do, and that it is the same under worker, sync and fake."""

from __future__ import annotations

import datetime as dt
import logging
import time

import pytest

from flask_jobs import (
    ConcurrencyLimit,
    ConfigurationError,
    ConnectionLost,
    FailOnException,
    InvalidArgument,
    Job,
    Limit,
    RateLimited,
    ReleaseJob,
    Skip,
    ThrottlesExceptions,
    WithoutOverlapping,
)
from flask_jobs.envelope import Event
from tests.apps import note

from .test_on_each_store import DAYS, register, stored


@pytest.fixture
def shop(open_on):
    shop = open_on()
    with shop.context():
        yield shop


# Limits


def test_the_fake_gives_each_job_its_turn_and_leaves_nothing_in_a_store(shop):
    shop.jobs.limiter("emails", lambda job: Limit.every(DAYS, 2))
    mail = register(shop, layers=[RateLimited("emails")])
    with shop.jobs.fake() as queue:
        shop.jobs.dispatch_many(mail(str(number)) for number in range(6))
        results = queue.drain(travel=True)

    assert sorted(shop.noted) == [str(number) for number in range(6)]
    released = [result for result in results if result.delay is not None]
    assert len(released) == 4
    assert shop.rows("SELECT count(*) FROM flask_jobs_limits", shop.file.parent / "jobs.sqlite") == [(0,)]


def test_a_job_run_by_itself_meets_its_limits_and_leaves_nothing_behind(shop):
    shop.jobs.limiter("emails", lambda job: Limit.per_minute(1))
    mail = register(shop, layers=[RateLimited("emails"), WithoutOverlapping("k")])

    for _ in range(3):
        shop.jobs.run(mail()).assert_done()

    assert shop.rows("SELECT count(*) FROM flask_jobs_slices", shop.file.parent / "jobs.sqlite") == [(0,)]


def test_sync_jobs_are_limited_in_the_memory_of_their_process(shop, caplog):
    shop.jobs.limiter("emails", lambda job: Limit.every(DAYS))
    mail = register(shop, layers=[RateLimited("emails", drop=True), WithoutOverlapping("k")])

    for word in "ab":
        shop.jobs.dispatch(mail(word), connection="sync")

    assert shop.noted == ["a"]
    assert "this process's memory" not in caplog.text


def test_sync_jobs_are_guarded_by_the_store_that_the_app_names(open_on):
    shop = open_on(JOBS_STORE="main", JOBS_DEFAULT="sync")
    shop.jobs.limiter("emails", lambda job: Limit.every(DAYS))
    mail = register(shop, layers=[RateLimited("emails", drop=True), WithoutOverlapping("k")])
    with shop.context():
        for word in "ab":
            shop.jobs.dispatch(mail(word))

        assert shop.noted == ["a"]
        assert shop.rows("SELECT count(*) FROM flask_jobs_limits", shop.file.parent / "jobs.sqlite") == [(1,)]


def test_the_memory_as_a_store_says_once_that_it_guards_one_process(open_on, caplog):
    shop = open_on(JOBS_STORE="memory")
    shop.jobs.limiter("emails", lambda job: Limit.every(DAYS))
    mail = register(shop, layers=[RateLimited("emails", drop=True), WithoutOverlapping("k")])
    with shop.context():
        shop.jobs.dispatch_many(mail(word) for word in "abc")
        shop.work()

    assert shop.noted == ["a"]
    assert caplog.text.count("they guard this process alone") == 1


def test_a_limiter_that_there_is_not_is_told_where_the_job_is_dispatched(shop):
    shop.jobs.limiter("emails", lambda job: Limit.per_minute(1))
    mail = register(shop, layers=[RateLimited("emials")])

    with pytest.raises(ConfigurationError, match=r"no limiter 'emials'\. Did you mean 'emails'"):
        shop.jobs.dispatch(mail())

    with pytest.raises(ConfigurationError, match="no limiter 'emials'"):
        shop.jobs.run(mail())
    assert stored(shop) == []


def test_a_limiter_that_is_gone_when_the_job_runs_is_an_error_of_the_job(shop):
    names = ["emails"]
    shop.jobs.limiter("emails", lambda job: Limit.per_minute(1))
    mail = register(shop, layers=lambda job: [RateLimited(names[0])], max_attempts=1)
    shop.jobs.dispatch(mail())
    names[0] = "gone"

    shop.work()

    (failed,) = shop.driver().failed()
    assert "There is no limiter 'gone'" in failed.error.message
    assert shop.noted == []


def test_a_limiter_that_gives_no_limit_lets_everything_through(shop):
    @shop.jobs.limiter("emails")
    def emails(job):
        return None if job.word == "free" else Limit.every(DAYS)

    mail = register(shop, layers=[RateLimited("emails")])
    shop.jobs.dispatch_many(mail(word) for word in ("free", "a", "free", "b"))

    shop.work()

    assert sorted(shop.noted) == ["a", "free", "free"]


@pytest.mark.parametrize(
    ("given", "kind"), [([30], "int"), (0, "int"), (False, "bool"), ("", "str"), ("30", "str"), ([None], "NoneType")]
)
def test_a_limiter_that_gives_anything_else_is_an_error_that_says_so(shop, given, kind):
    shop.jobs.limiter("emails", lambda job: given)
    mail = register(shop, layers=[RateLimited("emails")])

    shop.jobs.run(mail(), attempt=3).assert_failed_with(InvalidArgument, f"gave an object of type {kind}:")
    assert shop.noted == []


def test_one_name_is_one_limiter(shop):
    shop.jobs.limiter("emails", lambda job: Limit.per_minute(1))

    with pytest.raises(ConfigurationError, match="'emails' is registered already"):
        shop.jobs.limiter("emails", lambda job: Limit.per_minute(2))


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (Limit.per_second(5), "5 per second"),
        (Limit.per_minute(30), "30 per minute"),
        (Limit.per_minute(30, minutes=5), "30 in 300 s"),
        (Limit.per_hour(1).by(7), "1 per hour for 7"),
        (Limit.per_day(1).by("a", "b"), "1 per day for a|b"),
        (Limit.every(dt.timedelta(seconds=90)), "1 in 90 s"),
        (Limit.per_minute(3).rolling(), "3 per minute"),
    ],
)
def test_a_limit_says_what_it_allows(limit, words):
    assert str(limit) == words


@pytest.mark.parametrize(
    "make",
    [
        lambda: Limit.per_minute(0),
        lambda: Limit.per_minute(-1),
        lambda: Limit.per_minute(1.5),
        lambda: Limit.per_minute(2**31),
        lambda: Limit.every(0),
        lambda: Limit.every(-3),
        lambda: RateLimited(Limit.per_minute(3)),
        lambda: WithoutOverlapping(""),
        lambda: WithoutOverlapping("k", release_after=-1),
        lambda: WithoutOverlapping("k", expire_after=0),
        lambda: ConcurrencyLimit("k", 0),
        lambda: ConcurrencyLimit("k", 2**31),
        lambda: ThrottlesExceptions(max_exceptions=0),
        lambda: ThrottlesExceptions(decay=0),
        lambda: FailOnException(),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_written(make):
    with pytest.raises(InvalidArgument):
        make()


def test_the_largest_amounts_that_every_store_can_count_are_taken(shop):
    shop.jobs.limiter("emails", lambda job: Limit.per_minute(2**31 - 1))
    mail = register(shop, layers=[RateLimited("emails"), ConcurrencyLimit("k", 2**31 - 1)])

    shop.jobs.run(mail()).assert_done()


def test_values_of_two_parts_are_keys_of_two_parts():
    assert Limit.per_minute(1).by("a", "b") != Limit.per_minute(1).by("a|b")
    assert Limit.per_minute(1).by("a|", "b") != Limit.per_minute(1).by("a", "|b")


def test_release_after_overrides_the_turn_and_books_none(shop):
    shop.jobs.limiter("emails", lambda job: Limit.every(DAYS))
    mail = register(shop, layers=[RateLimited("emails").release_after(7)])
    shop.jobs.dispatch_many(mail(word) for word in "abc")

    shop.work()

    waiting = stored(shop)
    assert [round(job.history[0].until - job.history[0].at) for job in waiting] == [7, 7]
    assert shop.rows("SELECT count(*) FROM flask_jobs_bookings", shop.file.parent / "jobs.sqlite") == [(0,)]


def test_a_job_that_is_skipped_further_out_gives_its_turn_back(shop):
    shop.jobs.limiter("emails", lambda job: Limit.every(DAYS))
    skips = []
    mail = register(shop, layers=lambda job: [Skip.when(lambda job: job.word in skips), RateLimited("emails")])
    with shop.jobs.fake() as queue:
        shop.jobs.dispatch_many(mail(word) for word in "abc")
        queue.drain()
        skips.append("b")
        second = queue.drain(travel=True, limit=50)

    assert [str(result) for result in second].count("skipped (skipped by its middleware)") == 1
    assert sorted(shop.noted) == ["a", "c"]


# What a release costs


@pytest.mark.parametrize(
    ("setting", "layer", "spends"),
    [
        (False, WithoutOverlapping("k"), False),
        (True, WithoutOverlapping("k"), True),
        (True, WithoutOverlapping("k").spend_attempt(False), False),
        (False, WithoutOverlapping("k", spend_attempt=True), True),
    ],
)
def test_a_release_costs_an_attempt_if_the_app_or_the_middleware_says_so(open_on, setting, layer, spends):
    shop = open_on(JOBS_RELEASES_SPEND_ATTEMPTS=setting)

    class Busy:
        def handle(self, job, call_next):
            layer._put_back(0, "busy")

    mail = register(shop, layers=[Busy()], max_attempts=2)
    with shop.context():
        first = shop.jobs.run(mail())
        last = shop.jobs.run(mail(), attempt=2)

    first.assert_released()
    assert first.settlement.counters.attempts == (1 if spends else 0)
    assert first.settlement.counters.releases == 1
    if spends:
        last.assert_failed()
        assert "it was put back in its last attempt, and max_attempts is 2" in str(last)
    else:
        last.assert_released()


def test_a_release_of_the_body_has_spent_its_attempt_all_the_same(shop):
    def body(job):
        raise ReleaseJob(3, spend_attempt=False)

    mail = register(shop, body=body, max_attempts=1)

    shop.jobs.run(mail()).assert_failed()


# Locks


def test_a_key_is_one_of_its_kind_of_job_unless_it_is_shared(shop):
    inner = []

    def body(job):
        inner.append(job.word)
        if job.word == "outer":
            for kind in (same, other, shared):
                shop.jobs.dispatch(kind("inner"), connection="sync")

    same = register(shop, "same", layers=[WithoutOverlapping("k").dont_release()], body=body)
    other = register(shop, "other", layers=[WithoutOverlapping("k").dont_release()], body=body)
    shared = register(shop, "shared", layers=[WithoutOverlapping("k", shared=True, drop=True)], body=body)

    shop.jobs.dispatch(same("outer"), connection="sync")
    first = inner.copy()
    inner.clear()
    shop.jobs.dispatch(shared("outer"), connection="sync")

    assert first == ["outer", "inner", "inner"]
    assert inner == ["outer", "inner", "inner"]


def test_a_job_keeps_its_lock_key_when_it_is_given_a_new_name(shop):
    class Old(Job):
        def middleware(self):
            return [WithoutOverlapping("k")]

        def handle(self):
            note("ran")

    shop.jobs.register("new-name", aliases=["old-name"])(Old)
    result = shop.jobs.run(Old())

    result.assert_done()
    assert shop.noted == ["ran"]


def test_a_lock_is_let_go_of_when_its_job_raises_or_is_released(shop):
    def body(job):
        note(job.word)
        if job.word == "raises":
            raise ValueError
        if job.word == "released":
            raise ReleaseJob(100)

    mail = register(shop, layers=[WithoutOverlapping("k")], body=body, backoff=100)
    for word in ("raises", "released", "done"):
        shop.jobs.dispatch(mail(word), connection="main")
        shop.work()

    assert shop.noted == ["raises", "released", "done"]


# Errors


@pytest.mark.parametrize("middleware", [WithoutOverlapping("k"), RateLimited("emails"), ThrottlesExceptions("k")])
def test_a_store_that_is_away_is_an_error_of_the_job_and_not_an_answer(open_on, middleware):
    away = {"driver": "redis", "url": "redis://127.0.0.1:1/0"}
    shop = open_on(also={"away": away}, JOBS_STORE="away")
    shop.jobs.limiter("emails", lambda job: Limit.per_minute(1))
    mail = register(shop, layers=[middleware], backoff=5)
    with shop.context():
        shop.jobs.dispatch(mail())
        shop.work("main")
        (waiting,) = shop.driver("main").jobs("default")

    assert shop.noted == []
    assert waiting.history[0].event is Event.ERROR
    assert ConnectionLost.__name__ in waiting.history[0].reason


def test_a_connection_that_keeps_no_locks_says_what_to_set(open_on):
    shop = open_on()
    mail = register(shop, layers=[WithoutOverlapping("k", store="sync")], max_attempts=1)
    with shop.context():
        shop.jobs.dispatch(mail())
        shop.work()
        (failed,) = shop.driver().failed()

    assert "The connection 'sync' keeps no locks and limits" in failed.error.message
    assert "JOBS_STORE" in failed.error.message


def test_a_store_that_there_is_not_is_refused_when_the_app_is_made(open_on):
    with pytest.raises(ConfigurationError, match="JOBS_STORE names the store 'reddis'"):
        open_on(JOBS_STORE="reddis")


def test_an_error_of_the_wrong_kind_fails_the_job_for_good(shop):
    def body(job):
        raise {"type": TypeError("t"), "key": KeyError("k"), "value": ValueError("final")}[job.word]

    mail = register(shop, layers=[FailOnException(TypeError, lambda error: "final" in str(error))], body=body)

    shop.jobs.run(mail("type")).assert_failed_with(TypeError)
    shop.jobs.run(mail("value")).assert_failed_with(ValueError, "final")
    shop.jobs.run(mail("key")).assert_released()


def test_only_the_errors_that_a_condition_names_are_counted(shop):
    def body(job):
        note(job.word)
        raise {"bank": ConnectionError, "mine": ValueError}[job.word]

    layer = ThrottlesExceptions("k", max_exceptions=1, decay=100).when(lambda e: isinstance(e, ConnectionError))
    mail = register(shop, layers=[layer], body=body, max_attempts=1)
    for word in ("mine", "mine", "bank", "mine"):
        shop.jobs.dispatch(mail(word))
        shop.work()

    assert shop.noted == ["mine", "mine", "bank"]


def test_a_timeout_is_counted_as_an_error_is(shop):

    def body(job):
        note(job.word)
        time.sleep(30)

    mail = register(
        shop, layers=[ThrottlesExceptions(max_exceptions=1, decay=100)], body=body, max_attempts=1, timeout=2
    )
    for word in "ab":
        shop.jobs.dispatch(mail(word))
        shop.work()

    assert shop.noted == ["a"]
    assert "the circuit 'mail' is open" in stored(shop)[0].history[0].reason


def test_a_report_that_raises_changes_nothing(shop, caplog):
    def body(job):
        raise ConnectionError("the bank")

    def report(error):
        raise RuntimeError("no mail server")

    mail = register(shop, layers=[ThrottlesExceptions("k", max_exceptions=1, report=report)], body=body)
    with caplog.at_level(logging.WARNING):
        shop.jobs.run(mail(), attempt=3).assert_failed_with(ConnectionError, "the bank")

    assert "A middleware could not finish its work after job" in caplog.text


@pytest.mark.parametrize(
    ("layer", "skipped"),
    [
        (Skip.when(True), True),
        (Skip.when(False), False),
        (Skip.unless(True), False),
        (Skip.unless(False), True),
        (Skip.when(lambda job: job.word == "x"), True),
        (Skip.unless(lambda job: job.word == "x"), False),
    ],
)
def test_a_job_is_skipped_when_a_condition_says_so(shop, layer, skipped):
    mail = register(shop, layers=[layer])

    result = shop.jobs.run(mail("x"))

    assert shop.noted == ([] if skipped else ["x"])
    if skipped:
        result.assert_skipped()
    else:
        result.assert_done()
