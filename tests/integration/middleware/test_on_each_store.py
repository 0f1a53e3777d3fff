"""Limits, locks and the circuit breaker as workers keep them, beside the jobs on each store."""

from __future__ import annotations

import threading
import time

import pytest

from flask_jobs import (
    ConcurrencyLimit,
    Job,
    Limit,
    RateLimited,
    Skip,
    ThrottlesExceptions,
    WithoutOverlapping,
    current_job,
)
from flask_jobs.cli import jobs_cli
from flask_jobs.envelope import Event
from tests.apps import Draft, note, worker
from tests.servers import wait_until

pytestmark = pytest.mark.slow

# A window so long, in seconds, that none is likely to end within a test.
DAYS = 200_000


def register(shop, name="mail", *, layers=(), body=lambda job: note(job.word), **options):
    """A job class of the shop whose instances have a word."""

    class Mail(Job):
        def __init__(self, word="x"):
            self.word = word

        def middleware(self):
            return layers(self) if callable(layers) else list(layers)

        def handle(self):
            body(self)

    for option, value in options.items():
        setattr(Mail, option, value)
    return shop.jobs.register(name)(Mail)


def stored(shop):
    return sorted(shop.driver().jobs("default"), key=lambda job: job.envelope.id)


def work_in_threads(shop, amount):
    """So many workers at once, each until nothing is due."""
    threads = [threading.Thread(target=worker(shop.app).run) for _ in range(amount)]
    for thread in threads:
        thread.start()
    return threads


def test_each_blocked_job_comes_back_in_its_own_turn_and_says_why_it_waits(shop):
    shop.jobs.limiter("emails", lambda job: Limit.every(DAYS, 2))
    mail = register(shop, layers=[RateLimited("emails")])
    shop.jobs.dispatch_many(mail(str(number)) for number in range(5))

    shop.work()

    waiting = stored(shop)
    entries = [job.history[-1] for job in waiting]
    assert shop.noted == ["0", "1"] or len(shop.noted) == 2
    assert [entry.event for entry in entries] == [Event.RELEASED] * 3
    assert all("the limit 'emails' of 2 in 200000 s is used up; its own turn comes at" in e.reason for e in entries)
    windows = [round(job.due // DAYS) for job in waiting]
    assert [window - windows[0] for window in windows] == [0, 0, 1]
    assert [job.counters.attempts for job in waiting] == [0, 0, 0]
    assert [job.counters.releases for job in waiting] == [1, 1, 1]
    said = shop.app.test_cli_runner().invoke(jobs_cli, ["explain", waiting[0].envelope.id]).output
    assert "the limit 'emails' of 2 in 200000 s is used up" in " ".join(said.split())


def test_a_limited_job_runs_when_its_turn_has_come(shop):
    shop.jobs.limiter("emails", lambda job: [Limit.per_second(1), Limit.per_minute(50).by("all")])
    mail = register(shop, layers=[RateLimited("emails")])
    shop.jobs.dispatch_many(mail(str(number)) for number in range(4))

    wait_until(lambda: shop.work() and len(shop.noted) == 4, what="all turns", within=60)

    assert sorted(shop.noted) == ["0", "1", "2", "3"]
    assert shop.driver().size("default").delayed == 0
    assert shop.driver().count_failed() == 0


def test_limits_by_a_key_are_limits_apart(shop):
    shop.jobs.limiter("emails", lambda job: Limit.every(DAYS).by(job.word))
    mail = register(shop, layers=[RateLimited("emails")])
    shop.jobs.dispatch_many(mail(word) for word in ("a", "b", "a", "b", "A"))

    shop.work()

    assert sorted(shop.noted) == ["A", "a", "b"]
    assert len(stored(shop)) == 2


def test_a_job_that_does_not_run_leaves_its_start_to_others(shop):
    shop.jobs.limiter("emails", lambda job: Limit.every(DAYS))
    seen = []

    class Stop:
        def handle(self, job, call_next):
            seen.append(job.word)
            if job.word != "c":
                current_job.release(100)
            call_next()

    mail = register(shop, layers=[RateLimited("emails"), Stop()])
    shop.jobs.dispatch_many(mail(word) for word in "abc")

    shop.work()

    assert sorted(seen) == ["a", "b", "c"]
    assert shop.noted == ["c"]


def test_a_job_that_is_failed_instead_of_waiting_gives_its_turn_back(shop):
    shop.jobs.limiter("emails", lambda job: Limit.every(DAYS))
    mail = register(shop, layers=[RateLimited("emails")])
    hasty = register(shop, "hasty", layers=[RateLimited("emails")], max_releases=0)
    shop.jobs.dispatch(mail("first"))
    shop.work()
    shop.jobs.dispatch(hasty("failed"))
    shop.work()
    shop.jobs.dispatch(mail("next"))
    shop.work()

    (waiting,) = stored(shop)
    (failed,) = shop.driver().failed()
    assert failed.envelope.name == "hasty"
    assert "the limit 'emails'" in failed.history[-1].reason
    assert waiting.due - time.time() <= DAYS


def test_a_job_that_is_failed_instead_of_waiting_gives_its_turn_back_in_another_store_too(shop):
    shop.jobs.limiter("emails", lambda job: Limit.every(DAYS))
    hasty = register(shop, layers=[RateLimited("emails", store="other")], max_releases=0)
    ran, failed = (shop.jobs.dispatch(hasty(word)) for word in "ab")

    shop.work()

    assert shop.noted == ["a"]
    assert [job.envelope.id for job in shop.driver().failed()] == [failed.id]
    assert not shop.driver("other").store.give_back(failed.id)
    assert not shop.driver("other").store.give_back(ran.id)


def test_a_job_that_is_skipped_further_out_gives_its_turn_back(shop):
    shop.jobs.limiter("emails", lambda job: Limit.every(2))
    skipped = []
    mail = register(shop, layers=[Skip.when(lambda job: job.word in skipped), RateLimited("emails")])
    wait_until(lambda: time.time() % 2 < 0.8, what="the beginning of a window")
    _, second = (shop.jobs.dispatch(mail(word)) for word in "ab")
    shop.work()
    waiting = shop.driver().find(second.id)

    skipped.append("b")
    wait_until(lambda: shop.work() and shop.driver().find(second.id) is None, what="its turn", within=30)

    assert "its own turn comes at" in waiting.history[0].reason
    assert shop.noted == ["a"]
    assert not shop.driver().store.give_back(second.id)


def test_one_job_with_a_key_runs_at_a_time_and_the_other_says_which_holds_it(shop):
    inside, gate = threading.Event(), threading.Event()

    def body(job):
        inside.set()
        gate.wait(20)
        note(job.word)

    slow = register(shop, layers=[WithoutOverlapping("k", release_after=0.2)], body=body)
    first = shop.jobs.dispatch(slow("first"))
    threads = work_in_threads(shop, 1)
    assert inside.wait(20)
    shop.jobs.dispatch(slow("second"))
    shop.work()

    (waiting,) = (job for job in stored(shop) if job.envelope.id != first.id)
    gate.set()
    for thread in threads:
        thread.join(30)
    wait_until(lambda: shop.work() and len(shop.noted) == 2, what="the second job", within=30)

    assert f"the key 'k' is held by job {first.id} until that ends, or until" in waiting.history[0].reason
    assert waiting.counters.attempts == 0
    assert shop.noted == ["first", "second"]


def test_a_dropped_job_ends_and_is_never_run(shop):
    inside, gate = threading.Event(), threading.Event()

    def body(job):
        inside.set()
        gate.wait(20)
        note(job.word)

    slow = register(shop, layers=[WithoutOverlapping("k").dont_release()], body=body)
    shop.jobs.dispatch(slow("first"))
    threads = work_in_threads(shop, 1)
    assert inside.wait(20)
    dropped = shop.jobs.dispatch(slow("second"))

    shop.work()
    found = shop.driver().find(dropped.id)
    gate.set()
    for thread in threads:
        thread.join(30)

    assert found is None
    assert shop.driver().count_failed() == 0
    assert shop.noted == ["first"]


def test_a_lock_is_held_while_its_job_runs_beyond_its_lease(shop):
    """The lease of 3 s is renewed, and the lock with it."""
    inside, gate = threading.Event(), threading.Event()

    def body(job):
        inside.set()
        gate.wait(20)
        note(job.word)

    slow = register(shop, layers=[WithoutOverlapping("k", release_after=0.3)], body=body)
    shop.jobs.dispatch(slow("first"))
    threads = work_in_threads(shop, 1)
    assert inside.wait(20)
    began = time.monotonic()
    shop.jobs.dispatch(slow("second"))
    while time.monotonic() - began < 4:
        shop.work()
        time.sleep(0.1)

    before = list(shop.noted)
    gate.set()
    for thread in threads:
        thread.join(30)
    wait_until(lambda: shop.work() and len(shop.noted) == 2, what="the second job", within=30)

    assert before == []
    assert shop.noted == ["first", "second"]


def test_so_many_with_a_key_run_at_once_and_no_more(shop):
    running, most = [], []
    lock = threading.Lock()

    def body(job):
        with lock:
            running.append(job.word)
            most.append(len(running))
        time.sleep(0.3)
        with lock:
            running.remove(job.word)
        note(job.word)

    slow = register(shop, layers=[ConcurrencyLimit("k", 2, release_after=0.1)], body=body)
    shop.jobs.dispatch_many(slow(str(number)) for number in range(8))

    threads = work_in_threads(shop, 4)
    for thread in threads:
        thread.join(60)
    wait_until(lambda: shop.work() and len(shop.noted) == 8, what="all jobs", within=60)

    assert max(most) == 2
    assert sorted(shop.noted) == [str(number) for number in range(8)]


def test_after_too_many_errors_jobs_wait_and_the_errors_are_counted_as_ever(shop):
    told = []

    def body(job):
        note(job.word)
        raise ConnectionError("the bank does not answer")

    layer = ThrottlesExceptions("bank", max_exceptions=2, decay=100, report=told.append)
    charge = register(shop, layers=[layer], body=body, max_attempts=1)
    shop.jobs.dispatch_many(charge(str(number)) for number in range(4))

    shop.work()

    waiting = stored(shop)
    assert len(shop.noted) == 2
    assert [str(error) for error in told] == ["the bank does not answer"]
    assert shop.driver().count_failed() == 2
    assert all("the circuit 'bank' is open until" in job.history[0].reason for job in waiting)
    assert all("after 2 errors" in job.history[0].reason for job in waiting)
    assert all(0 < job.due - time.time() <= 100 for job in waiting)


def test_a_job_that_goes_well_ends_the_count(shop):
    def body(job):
        note(job.word)
        if job.word == "bad":
            raise ConnectionError

    charge = register(
        shop, layers=[ThrottlesExceptions("bank", max_exceptions=2, decay=100)], body=body, max_attempts=1
    )
    for word in ("bad", "good", "bad", "good", "bad", "bad", "good"):
        shop.jobs.dispatch(charge(word))
        shop.work()

    assert shop.noted == ["bad", "good", "bad", "good", "bad", "bad"]


def test_a_store_that_is_named_guards_jobs_of_another_connection(shop):
    held = []

    def body(job):
        other = shop.driver("other").store
        held.append(other.tally("errors/x", 0, seconds=1).count)
        note(job.word)

    layers = [
        WithoutOverlapping("k", store="other", expire_after=60),
        ThrottlesExceptions("x", store="other"),
    ]
    guarded = register(shop, layers=layers, body=body)
    shop.driver("other").store.tally("errors/x", 3, seconds=60)
    shop.jobs.dispatch(guarded("a"))

    shop.work()

    assert shop.noted == ["a"]
    assert held == [3]
    assert shop.driver("other").store.tally("errors/x", 0, seconds=1).count == 0


def test_a_lock_in_another_store_is_extended_while_its_job_runs(shop):
    inside, gate = threading.Event(), threading.Event()

    def body(job):
        inside.set()
        gate.wait(20)
        note(job.word)

    layers = [WithoutOverlapping("k", store="other", expire_after=1, release_after=0.3)]
    slow = register(shop, layers=layers, body=body)
    shop.jobs.dispatch(slow("first"))
    threads = work_in_threads(shop, 1)
    assert inside.wait(20)
    began = time.monotonic()
    shop.jobs.dispatch(slow("second"))
    while time.monotonic() - began < 2:
        shop.work()
        time.sleep(0.1)

    before = list(shop.noted)
    gate.set()
    for thread in threads:
        thread.join(30)
    wait_until(lambda: shop.work() and len(shop.noted) == 2, what="the second job", within=30)

    assert before == []
    assert shop.noted == ["first", "second"]


def test_a_job_whose_batch_is_cancelled_while_it_waits_gives_its_turn_back(shop):
    shop.jobs.limiter("emails", lambda job: Limit.every(5))
    mail = register(shop, layers=[RateLimited("emails")])
    wait_until(lambda: time.time() % 5 < 2, what="the beginning of a window")
    batch = shop.jobs.batch([mail("a"), mail("b")])
    shop.work()
    (waiting,) = stored(shop)

    batch.cancel()
    wait_until(lambda: shop.work() and batch.is_finished, what="the end of the batch", within=30)

    assert "its own turn comes at" in waiting.history[0].reason
    assert len(shop.noted) == 1
    assert not shop.driver().store.give_back(waiting.envelope.id)


def test_a_job_that_ends_with_its_row_gives_its_turn_back(shop):
    shop.jobs.limiter("emails", lambda job: Limit.every(5))
    mail = register(shop, layers=[RateLimited("emails")])

    class Publish(Job):
        def __init__(self, draft):
            self.draft = draft

        def middleware(self):
            return [RateLimited("emails")]

        def handle(self):
            note("published")

    shop.jobs.register("publish")(Publish)
    draft = Draft()
    shop.session.add(draft)
    shop.session.commit()
    wait_until(lambda: time.time() % 5 < 2, what="the beginning of a window")
    shop.jobs.dispatch(mail("a"))
    publish = shop.jobs.dispatch(Publish(draft))
    shop.work()
    waiting = shop.driver().find(publish.id)

    shop.session.delete(draft)
    shop.session.commit()
    wait_until(lambda: shop.work() and shop.driver().find(publish.id) is None, what="its end", within=30)

    assert "its own turn comes at" in waiting.history[0].reason
    assert shop.noted == ["a"]
    assert shop.driver().count_failed() == 0
    assert not shop.driver().store.give_back(publish.id)
