from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import freezegun
import pytest
import time_machine

from flask_jobs import clock
from flask_jobs.control import ReleaseJob, current_job
from flask_jobs.envelope import NOW as AT_ONCE
from flask_jobs.envelope import After, Counters, Event, Hook, Room
from flask_jobs.errors import MalformedEnvelope, StoreRefused
from flask_jobs.job import Job
from flask_jobs.options import WorkerDefaults
from flask_jobs.policy import UNKNOWN_PAUSES
from flask_jobs.stored import Sizes
from flask_jobs.worker import Post, Stop, Worker
from flask_jobs.worker.post import Allowance

from ..support.bench import Bench, lost
from ..support.values import NOW


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench() as made:
        yield made


@pytest.fixture
def live() -> Iterator[Bench]:
    """A bench whose store's clock goes on, with short leases."""
    with Bench(retry_after=0.3, now=clock.now) as made:
        yield made


def fail(self: Job) -> None:
    raise ValueError("boom")


def told(signal_number: int) -> Callable[[Job], None]:
    return lambda self: os.kill(os.getpid(), signal_number)


def eventually(condition: Callable[[], bool]) -> None:
    ends = clock.monotonic() + 10
    while not condition():
        assert clock.monotonic() < ends, "It never came true."
        time.sleep(0.005)


def aside(bench: Bench, **settings: object) -> tuple[threading.Thread, list[Stop], Callable[[], None]]:
    """A worker in a thread of its own: the thread, where its reason goes, and what stops it."""
    worker = bench.worker(stop_when_empty=False, **settings)
    ends: list[Stop] = []
    thread = threading.Thread(target=lambda: ends.append(worker.run()))
    thread.start()
    return thread, ends, worker.stop


# Running and settling


def test_jobs_run_in_order_and_leave_the_store(bench: Bench):
    ran: list[str] = []
    bench.knows("demo", lambda self: ran.append(current_job.id))
    ids = [bench.store.add("demo") for _ in range(3)]

    reason = bench.work()

    assert reason is Stop.EMPTY
    assert ran == ids
    assert bench.store.size("default") == Sizes()
    assert bench.signals() == ["job-processing", "job-processed"] * 3


def test_what_ended_well_is_settled_with_the_next_pop(bench: Bench):
    bench.knows("demo", lambda self: None)
    bench.store.add("demo")
    bench.store.add("demo")

    bench.work()

    assert bench.store.calls == ["pop", "exchange", "exchange"]


def test_everything_else_is_settled_at_once(bench: Bench):
    bench.knows("demo", fail)
    bench.store.add("demo")

    bench.work()

    assert bench.store.calls == ["pop", "settle", "pop"]
    assert bench.store.size("default") == Sizes(delayed=1)


def test_f29_the_context_is_torn_down_before_anything_is_settled(bench: Bench):
    bench.knows("demo", lambda self: bench.store.calls.append("handle"))
    bench.app.on_cleanup = lambda: bench.store.calls.append("cleanup")
    bench.app.on_teardown = lambda: bench.store.calls.append("teardown")
    bench.store.add("demo")

    bench.work()

    assert bench.store.calls == ["pop", "handle", "cleanup", "teardown", "exchange"]


def test_an_error_is_recorded_and_tried_again_after_its_backoff(bench: Bench):
    bench.knows("demo", fail, backoff=30)
    job_id = bench.store.add("demo")

    bench.work()

    stored = bench.store.find(job_id)
    assert stored is not None
    assert stored.due == pytest.approx(NOW + 30, abs=1)
    assert [(entry.event, entry.reason) for entry in stored.history] == [(Event.ERROR, "ValueError: boom")]
    assert bench.signals() == ["job-processing", "job-released"]


def test_a_job_fails_after_its_last_attempt_with_the_whole_story(bench: Bench):
    bench.knows("demo", fail, max_attempts=3, backoff=[1, 2])
    job_id = bench.store.add("demo")

    for _ in range(3):
        bench.work()
        bench.store.time += 10

    failed = bench.store.find_failed(job_id)
    assert failed is not None
    assert (failed.error.type, failed.error.message, failed.counters.attempts) == ("ValueError", "boom", 3)
    assert len(failed.history) == 3
    assert "fail" in failed.error.traceback


def test_the_hook_runs_once_after_the_record_and_the_record_says_so(bench: Bench):
    seen: list[object] = []

    def failed(self: Job, error: BaseException) -> None:
        seen.append((bench.store.find_failed(job_id) is not None, str(error)))

    bench.knows("demo", fail, failed=failed, max_attempts=1)
    job_id = bench.store.add("demo")

    bench.work()

    assert seen == [(True, "boom")]
    stored = bench.store.find_failed(job_id)
    assert stored is not None
    assert stored.hook is Hook.RAN
    assert bench.signals() == ["job-processing", "job-failed"]
    (facts,) = [facts for name, facts in bench.heard if name == "job-failed"]
    assert isinstance(facts["error"], ValueError)


def test_a_job_without_a_hook_is_not_rebuilt_for_it(bench: Bench):
    bench.knows("demo", fail, max_attempts=1)
    job_id = bench.store.add("demo")

    bench.work()

    stored = bench.store.find_failed(job_id)
    assert stored is not None
    assert stored.hook is Hook.NONE
    assert bench.app.calls.count("decode") == 1


def test_a_job_that_cannot_be_rebuilt_is_not_tried_again_for_its_hook(bench: Bench, caplog: pytest.LogCaptureFixture):
    def rubbish() -> Job:
        raise MalformedEnvelope("It is cut in half.")

    bench.app.jobs["demo"] = rubbish
    job_id = bench.store.add("demo")

    bench.work()

    stored = bench.store.find_failed(job_id)
    assert stored is not None
    assert stored.hook is Hook.NONE
    assert bench.app.calls.count("decode") == 1
    assert len([record for record in caplog.records if record.levelno >= logging.ERROR]) == 1


def test_a_job_that_was_skipped_is_processed_and_says_why(bench: Bench):
    bench.knows("demo", lambda self: current_job.delete())
    bench.store.add("demo")

    bench.work()

    (facts,) = [facts for name, facts in bench.heard if name == "job-processed"]
    assert facts["reason"] == "deleted by the job"


def test_a_release_is_put_back_uncharged_before_the_body_and_charged_after(bench: Bench):
    class Full:
        def handle(self, job: Job, call_next: Callable[[], None]) -> None:
            raise ReleaseJob(5)

    bench.knows("limited", lambda self: None, middleware=lambda self: [Full()])
    bench.knows("patient", lambda self: current_job.release(5))
    limited, patient = bench.store.add("limited"), bench.store.add("patient")

    bench.work()

    counters = [stored.counters for job_id in (limited, patient) if (stored := bench.store.find(job_id))]
    assert [(c.attempts, c.releases) for c in counters] == [(0, 1), (1, 0)]


def test_f07_what_cannot_be_built_ends_in_the_failed_store_and_the_worker_goes_on(bench: Bench):
    def malformed() -> Job:
        raise MalformedEnvelope("It is cut in half.")

    ran: list[int] = []
    bench.app.jobs["malformed"] = malformed
    bench.knows("good", lambda self: ran.append(1))
    unknown, cut = bench.store.add("unknown"), bench.store.add("malformed")
    bench.store.add("good")

    bench.work()
    assert ran == [1]
    assert [failed.envelope.id for failed in bench.store.failed()] == [cut]
    for pause in UNKNOWN_PAUSES:
        bench.store.time += pause
        bench.work()

    failed = bench.store.find_failed(unknown)
    assert failed is not None
    assert failed.error.type.endswith("UnknownJob")
    assert failed.envelope.body == "{}.signature"
    assert failed.counters.attempts == 0


def test_a_job_that_kept_killing_its_workers_is_refused_with_the_causes(bench: Bench):
    ran: list[int] = []
    bench.knows("demo", lambda self: ran.append(1), max_attempts=2)
    job_id = bench.store.add("demo")
    for token in ("a", "b"):
        bench.store.pop(["default"], token, Room())
        bench.store.time += 91

    bench.work()

    failed = bench.store.find_failed(job_id)
    assert ran == []
    assert failed is not None
    assert failed.error.type.endswith("MaxAttemptsExceeded")
    assert len(failed.error.causes) == 2
    assert "the lease ran out" in failed.error.causes[-1]


def test_a_job_taken_in_again_is_told_of(bench: Bench, caplog: pytest.LogCaptureFixture):
    bench.knows("demo", lambda self: None)
    bench.store.add("demo")
    bench.store.pop(["default"], "dead", Room())
    bench.store.time += 91

    bench.work()

    assert bench.signals() == ["lease-expired", "job-processing", "job-processed"]
    assert "reclaimed" in caplog.text


@pytest.mark.parametrize("ends_well", [True, False])
def test_a_stale_settlement_is_one_warning_and_changes_nothing(
    bench: Bench, ends_well: bool, caplog: pytest.LogCaptureFixture
):
    hooks: list[int] = []

    def handle(self: Job) -> None:
        bench.store.time += 91
        assert bench.store.pop(["default"], "successor", Room()).reservations
        if not ends_well:
            raise ValueError

    bench.knows("demo", handle, max_attempts=1, failed=lambda self, error: hooks.append(1))
    bench.store.add("demo")

    bench.work(renew=False)

    assert bench.signals() == ["job-processing", "settlement-lost"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert hooks == []
    assert bench.store.count_failed() == 0
    assert bench.store.size("default") == Sizes(reserved=1)


def test_queues_are_served_by_priority(bench: Bench):
    ran: list[str] = []
    bench.knows("demo", lambda self: ran.append(current_job.queue))
    bench.store.add("demo", queue="low")
    bench.store.add("demo", queue="high")

    bench.work(queues=("high", "low"))

    assert ran == ["high", "low"]


def test_the_workers_defaults_stand_in(bench: Bench):
    bench.knows("demo", fail)
    bench.store.add("demo")

    bench.work(defaults=WorkerDefaults(tries=1))

    assert bench.store.count_failed() == 1


# Ending


def test_once_runs_one_job(bench: Bench):
    bench.knows("demo", lambda self: None)
    bench.store.add("demo")
    bench.store.add("demo")

    reason = bench.work(once=True, stop_when_empty=False)

    assert reason is Stop.ONCE
    assert bench.store.size("default") == Sizes(ready=1)


def test_once_does_not_wait_for_a_job(bench: Bench):
    assert bench.work(once=True, stop_when_empty=False) is Stop.ONCE
    assert bench.store.calls == ["pop"]


def test_delayed_jobs_do_not_keep_a_worker_that_stops_when_empty(bench: Bench):
    bench.knows("demo", lambda self: None)
    bench.store.add("demo", due=After(5))

    assert bench.work() is Stop.EMPTY
    assert bench.store.size("default") == Sizes(delayed=1)


def test_max_jobs_ends_it_with_everything_settled(bench: Bench):
    bench.knows("demo", lambda self: None)
    for _ in range(3):
        bench.store.add("demo")

    assert bench.work(max_jobs=2) is Stop.MAX_JOBS
    assert bench.store.size("default") == Sizes(ready=1)
    assert bench.store.calls == ["pop", "exchange", "settle"]


def test_max_time_ends_a_wait(bench: Bench):
    began = clock.monotonic()

    reason = bench.work(max_time=0.1, stop_when_empty=False, sleep=60)

    assert reason is Stop.MAX_TIME
    assert 0.1 <= clock.monotonic() - began < 5


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_a_signal_ends_it_after_its_current_job(bench: Bench, number: int):
    finished: list[int] = []

    def handle(self: Job) -> None:
        os.kill(os.getpid(), number)
        finished.append(1)
        assert current_job.stopping

    bench.knows("demo", handle)
    bench.store.add("demo")
    bench.store.add("demo")

    reason = bench.work()

    assert reason is Stop.SIGNAL
    assert reason.exit_code == 0
    assert finished == [1]
    assert bench.store.size("default") == Sizes(ready=1)


def test_a_second_signal_cuts_the_job_short_uncharged_and_at_once_available(bench: Bench):
    ended: list[str] = []

    def handle(self: Job) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            time.sleep(30)
        finally:
            ended.append("finally")

    bench.knows("demo", handle)
    job_id = bench.store.add("demo")
    began = clock.monotonic()

    reason = bench.work()

    assert reason is Stop.INTERRUPTED
    assert reason.exit_code != 0
    assert ended == ["finally"]
    assert clock.monotonic() - began < 5
    stored = bench.store.find(job_id)
    assert stored is not None
    assert (stored.counters.attempts, stored.counters.interruptions) == (0, 1)
    assert bench.store.size("default") == Sizes(ready=1)
    assert bench.signals() == ["job-processing", "job-interrupted", "job-released"]


def test_the_handlers_from_before_are_given_back(bench: Bench):
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    bench.knows("demo", lambda self: None)
    bench.store.add("demo")

    bench.work()

    assert [signal.getsignal(number) for number in numbers] == before


def test_a_process_forked_by_a_job_dies_of_a_signal_as_usual(bench: Bench):
    statuses: list[int] = []

    def handle(self: Job) -> None:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - in the child
            os.write(writer, b"!")
            time.sleep(10)
            os._exit(0)
        os.read(reader, 1)
        os.kill(child, signal.SIGTERM)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    bench.knows("demo", handle)
    bench.store.add("demo")

    bench.work()

    assert statuses == [-signal.SIGTERM]


def test_a_waiting_worker_in_a_thread_ends_when_it_is_told(bench: Bench):
    thread, ends, stop = aside(bench, sleep=60)
    eventually(lambda: bool(bench.store.waits))

    stop()
    thread.join(timeout=5)

    assert ends == [Stop.SIGNAL]


def test_a_worker_told_to_stop_while_it_asks_puts_back_what_it_was_given(bench: Bench):
    ran: list[int] = []
    bench.knows("demo", lambda self: ran.append(1))
    job_id = bench.store.add("demo")
    worker = bench.worker()
    receive = bench.store.pop

    def pop(*args: object) -> object:
        worker.stop()
        return receive(*args)  # type: ignore[arg-type]

    bench.store.pop = pop  # type: ignore[assignment, method-assign]

    assert worker.run() is Stop.SIGNAL
    assert ran == []
    stored = bench.store.find(job_id)
    assert stored is not None
    assert stored.counters.attempts == 0
    assert bench.store.size("default") == Sizes(ready=1)


# Waiting


def test_it_wakes_for_a_delayed_job(live: Bench):
    ran: list[float] = []
    live.knows("demo", lambda self: ran.append(clock.now()))
    due = clock.now() + 0.15
    live.store.add("demo", due=After(0.15))

    live.work(max_jobs=1, max_time=10, stop_when_empty=False, sleep=60)

    assert 0 <= ran[0] - due < 2
    assert live.store.waits[0] <= 0.15


def test_sleep_is_the_longest_wait(bench: Bench):
    bench.work(max_time=0.1, stop_when_empty=False, sleep=0.02)

    assert len(bench.store.waits) > 1
    assert max(bench.store.waits) <= 0.02


def test_idle_is_told_when_it_begins(bench: Bench):
    bench.knows("demo", lambda self: None)
    bench.store.add("demo")

    bench.work(max_time=0.1, stop_when_empty=False, sleep=0.01)

    assert [name for name, _ in bench.heard if name.startswith("worker")] == [
        "worker-started",
        "worker-idle",
        "worker-stopping",
    ]


@pytest.mark.parametrize("freeze", [freezegun.freeze_time, lambda at: time_machine.travel(at, tick=False)])
def test_f46_no_wait_hangs_on_a_frozen_clock(bench: Bench, freeze: Callable[[str], contextlib.AbstractContextManager]):
    bench.knows("demo", lambda self: None)
    bench.store.add("demo")

    with freeze("2031-01-01"):
        reason = bench.work(max_time=0.1, stop_when_empty=False, sleep=0.02)

    assert reason is Stop.MAX_TIME
    assert bench.store.size("default") == Sizes()


# When the store is away


def test_a_pop_that_fails_is_tried_again_and_logged_once(bench: Bench, caplog: pytest.LogCaptureFixture):
    bench.knows("demo", lambda self: None)
    bench.store.add("demo")
    bench.store.before["pop"] = [lost(), lost(), StoreRefused("locked")]

    reason = bench.work()

    assert reason is Stop.EMPTY
    assert bench.store.size("default") == Sizes()
    lines = [record.getMessage() for record in caplog.records if record.name == "flask_jobs.worker.pause"]
    assert [line[:17] for line in lines] == ["The store is away", "The store is back"]


def test_a_lost_reply_is_recovered_before_the_next_pop_and_charges_nothing(bench: Bench):
    attempts: list[int] = []
    bench.knows("demo", lambda self: attempts.append(current_job.attempt))
    bench.store.add("demo")
    bench.store.after["pop"] = [lost()]

    bench.work()

    assert bench.store.calls == ["pop", "recover", "pop", "exchange"]
    assert attempts == [1]


def test_a_lost_reply_of_an_exchange_settles_once_and_runs_nothing_twice(bench: Bench):
    ran: list[str] = []
    bench.knows("demo", lambda self: ran.append(current_job.id))
    ids = [bench.store.add("demo"), bench.store.add("demo")]
    bench.store.after["exchange"] = [lost()]

    bench.work()

    assert ran == ids
    assert bench.signals() == ["job-processing", "job-processed"] * 2
    assert bench.store.size("default") == Sizes()


def test_a_recovery_that_fails_is_tried_again(bench: Bench):
    bench.knows("demo", lambda self: None)
    bench.store.add("demo")
    bench.store.after["pop"] = [lost()]
    bench.store.before["recover"] = [lost()]

    bench.work()

    assert bench.store.calls == ["pop", "recover", "recover", "pop", "exchange"]


@pytest.mark.parametrize("error", [lost(), StoreRefused("disk full"), KeyError("a bug")])
def test_a_settlement_is_tried_again_with_its_outcome_kept(bench: Bench, error: Exception):
    ran: list[int] = []

    def handle(self: Job) -> None:
        ran.append(1)
        raise ValueError("boom")

    bench.knows("demo", handle, max_attempts=1)
    job_id = bench.store.add("demo")
    bench.store.before["settle"] = [error, error]

    bench.work()

    assert ran == [1]
    failed = bench.store.find_failed(job_id)
    assert failed is not None
    assert failed.error.message == "boom"
    assert bench.signals() == ["job-processing", "job-failed"]


def test_a_settlement_is_given_up_when_its_lease_is_over_and_the_worker_goes_on(
    live: Bench, caplog: pytest.LogCaptureFixture
):
    hooks: list[int] = []
    live.knows("demo", fail, max_attempts=1, failed=lambda self, error: hooks.append(1))
    live.store.add("demo")
    live.store.before["settle"] = [lost()] * 50

    reason = live.work(max_jobs=1)

    assert reason is Stop.MAX_JOBS
    assert live.signals() == ["job-processing", "settlement-lost"]
    assert [record.levelno for record in caplog.records if "settlement lost" in record.getMessage()] == [logging.ERROR]
    assert hooks == []


def test_a_stop_ends_the_pauses_of_an_outage(bench: Bench):
    bench.store.before["pop"] = [lost()] * 1_000
    thread, ends, stop = aside(bench)
    eventually(lambda: len(bench.store.calls) >= 4)

    stop()
    thread.join(timeout=2)

    assert ends == [Stop.SIGNAL]


def test_a_store_that_stays_away_ends_the_worker_after_the_limit_with_a_code_of_its_own(
    bench: Bench, caplog: pytest.LogCaptureFixture
):
    bench.store.before["pop"] = [lost()] * 1_000

    began = time.monotonic()
    reason = bench.work(give_up_after=0.5)

    assert reason is Stop.STORE_AWAY
    assert reason.exit_code == 3
    assert time.monotonic() - began >= 0.5
    assert [record.getMessage()[:9] for record in caplog.records if record.levelno == logging.ERROR] == ["Giving up"]
    assert dict(bench.heard[-1][1])["reason"] == Stop.STORE_AWAY.value


def test_outages_that_are_shorter_than_the_limit_do_not_add_up(bench: Bench):
    def handle(self: Job) -> None:
        bench.store.before["exchange"] = [lost(), lost()]  # answered after 0.3 s

    bench.knows("demo", handle)
    for _ in range(6):
        bench.store.add("demo")

    assert bench.work(give_up_after=1.5) is Stop.EMPTY
    assert bench.store.size("default") == Sizes()


def test_a_finished_job_is_settled_when_the_store_comes_back_after_the_limit(bench: Bench):
    bench.knows("demo", lambda self: None)
    bench.store.add("demo")
    bench.store.before["exchange"] = [lost()] * 1_000
    bench.store.before["settle"] = [lost()]

    reason = bench.work(give_up_after=0.2)

    assert reason is Stop.STORE_AWAY
    assert bench.signals() == ["job-processing", "job-processed"]
    assert bench.store.size("default") == Sizes()


def test_a_wait_that_fails_does_not_end_the_worker(bench: Bench):
    bench.store.before["wait"] = [lost()]

    assert bench.work(max_time=0.3, stop_when_empty=False, sleep=0.05) is Stop.MAX_TIME
    assert bench.store.calls.count("wait") > 1


def test_a_bug_in_a_turn_is_logged_and_the_worker_goes_on(bench: Bench, caplog: pytest.LogCaptureFixture):
    bench.knows("demo", lambda self: None)
    bench.store.add("demo")
    bench.store.after["pop"] = [KeyError("a bug")]

    bench.work()

    assert bench.store.size("default") == Sizes()
    assert "A turn of the worker failed" in caplog.text


def test_a_turn_that_brings_no_job_is_not_at_the_expense_of_the_workers_beside_it(bench: Bench):
    bench.knows("demo", lambda self: None)
    bench.store.add("demo")
    bench.store.after["pop"] = [KeyError("a bug")]
    allowance = Allowance(2)

    reason = bench.worker(post=Post(allowance=allowance), max_time=5).run()

    assert reason is Stop.EMPTY
    assert [allowance.take(1), allowance.take(1)] == [1, 0]


def test_f22_a_job_that_makes_way_for_a_stop_spends_no_attempt(bench: Bench):
    workers: list[Worker] = []

    def handle(self: Job) -> None:
        workers[-1].stop()
        assert current_job.stopping
        current_job.release()

    bench.knows("demo", handle, max_attempts=2)
    job_id = bench.store.add("demo")
    reasons = []
    for _ in range(3):
        workers.append(bench.worker())
        reasons.append(workers[-1].run())

    stored = bench.store.find(job_id)
    assert stored is not None
    assert stored.counters == Counters(releases=3)
    assert reasons == [Stop.SIGNAL] * 3


def test_a_second_signal_gives_up_a_settlement_that_the_store_does_not_take(bench: Bench):
    def handle(self: Job) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        raise ValueError

    bench.knows("demo", handle)
    bench.store.add("demo")
    bench.store.before["settle"] = [lost()] * 1_000
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()

    reason = bench.work()
    timer.join()

    assert reason is Stop.INTERRUPTED
    assert bench.signals() == ["job-processing", "settlement-lost"]


# Time limits


def test_a_job_is_cut_short_at_its_limit_and_tried_again(bench: Bench):
    bench.knows("demo", lambda self: time.sleep(30), timeout=0.05, backoff=9)
    job_id = bench.store.add("demo")

    bench.work()

    stored = bench.store.find(job_id)
    assert stored is not None
    assert [entry.event for entry in stored.history] == [Event.TIMED_OUT]
    assert bench.signals() == ["job-processing", "job-timed-out", "job-released"]


def test_a_timeout_strikes_through_except_exception(bench: Bench):
    def handle(self: Job) -> None:
        while True:
            with contextlib.suppress(Exception):
                time.sleep(30)

    bench.knows("demo", handle, timeout=0.05, fail_on_timeout=True)
    bench.store.add("demo")

    bench.work()

    assert bench.signals() == ["job-processing", "job-timed-out", "job-failed"]


def test_a_hook_that_hangs_is_cut_short_as_well(bench: Bench, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("flask_jobs.executor.GRACE", 0.0)
    bench.knows("demo", fail, timeout=0.05, max_attempts=1, failed=lambda self, error: time.sleep(30))
    job_id = bench.store.add("demo")

    bench.work()

    stored = bench.store.find_failed(job_id)
    assert stored is not None
    assert stored.hook is Hook.RAISED


def test_off_the_main_thread_a_worker_says_that_it_enforces_no_limit(bench: Bench, caplog: pytest.LogCaptureFixture):
    bench.knows("demo", lambda self: None)
    bench.store.add("demo")
    bench.store.add("demo")
    thread = threading.Thread(target=bench.work)
    thread.start()
    thread.join()

    assert bench.store.size("default") == Sizes()
    assert caplog.text.count("Time limits cannot be enforced") == 1


# Leases


def test_the_lease_of_a_long_job_is_renewed(live: Bench):
    found: list[object] = []

    def handle(self: Job) -> None:
        ends = clock.monotonic() + 0.9
        while clock.monotonic() < ends:
            found.extend(live.store.pop(["default"], "another", Room()).reservations)
            time.sleep(0.02)

    live.knows("demo", handle)
    live.store.add("demo")

    live.work()

    assert found == []
    assert live.signals() == ["job-processing", "job-processed"]


def test_without_renewal_the_lease_of_a_long_job_runs_out(live: Bench):
    live.knows(
        "demo", lambda self: eventually(lambda: bool(live.store.pop(["default"], "another", Room()).reservations))
    )
    live.store.add("demo")

    live.work(renew=False)

    assert "renew" not in live.store.calls
    assert live.signals() == ["job-processing", "settlement-lost"]


def test_a_renewal_that_fails_is_tried_again_in_time(live: Bench, caplog: pytest.LogCaptureFixture):
    live.store.before["renew"] = [lost(), StoreRefused("locked"), KeyError("a bug")]
    live.knows("demo", lambda self: time.sleep(0.9))
    live.store.add("demo")

    live.work()

    assert live.signals() == ["job-processing", "job-processed"]
    assert caplog.text.count("could not be renewed") == 1


def test_a_lost_lease_is_logged_once(bench: Bench, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "flask_jobs")
    bench.store.retry_after = 0.09

    def handle(self: Job) -> None:
        bench.store.time += 100
        assert bench.store.pop(["default"], "successor", Room()).reservations
        eventually(lambda: bench.store.calls.count("renew") >= 1)
        time.sleep(0.1)

    bench.knows("demo", handle)
    bench.store.add("demo")

    bench.work(max_jobs=1)

    assert caplog.text.count("has lost its lease") == 1


def test_no_thread_outlives_the_worker(bench: Bench):
    before = threading.active_count()
    bench.knows("demo", lambda self: current_job.progress(1))
    bench.store.add("demo")

    bench.work()

    assert threading.active_count() == before


# Progress


def test_progress_is_written_at_most_twice_a_second_and_the_last_word_follows(live: Bench):
    written: list[float] = []
    note = live.store.note_progress

    def counted(reservation: object, progress: object) -> bool:
        written.append(progress.done)  # type: ignore[attr-defined]
        return note(reservation, progress)  # type: ignore[arg-type]

    live.store.note_progress = counted  # type: ignore[method-assign]

    def handle(self: Job) -> None:
        for done in range(100):
            current_job.progress(done, 100)
        eventually(lambda: len(written) == 2)

    live.knows("demo", handle)
    live.store.add("demo")

    live.work()

    assert written == [0, 99]


def test_progress_that_cannot_be_written_costs_the_job_nothing(bench: Bench, caplog: pytest.LogCaptureFixture):
    def refuse(reservation: object, progress: object) -> bool:
        raise lost()

    bench.store.note_progress = refuse  # type: ignore[method-assign]
    bench.knows("demo", lambda self: current_job.progress(1))
    bench.store.add("demo")

    bench.work()

    assert bench.signals() == ["job-processing", "job-processed"]
    assert "progress" in caplog.text


# Manners


def test_f47_the_workers_leaves_logging_as_it_is(bench: Bench):
    def state() -> list[object]:
        loggers = [logging.getLogger(), *map(logging.getLogger, sorted(logging.Logger.manager.loggerDict))]
        return [(log.name, log.level, list(log.handlers), list(log.filters), log.disabled) for log in loggers]

    bench.knows("demo", fail)
    bench.store.add("demo")
    before = state()

    bench.work()

    assert state() == before


def test_a_receiver_and_a_hook_that_raise_change_nothing(bench: Bench):
    bench.knows("demo", fail, max_attempts=1, failed=lambda self, error: 1 / 0)
    bench.app.on_teardown = lambda: 1 / 0
    job_id = bench.store.add("demo")
    bench.store.add("demo")

    assert bench.work() is Stop.EMPTY
    stored = bench.store.find_failed(job_id)
    assert stored is not None
    assert (stored.error.message, stored.hook) == ("boom", Hook.RAISED)
    assert bench.store.count_failed() == 2


def test_an_attempt_may_be_due_at_once(bench: Bench):
    attempts: list[int] = []

    def handle(self: Job) -> None:
        attempts.append(current_job.attempt)
        raise ValueError

    bench.knows("demo", handle, backoff=0)
    bench.store.add("demo", due=AT_ONCE)

    bench.work()

    assert attempts == [1, 2, 3]


# Jobs that take what is the worker's


def ignoring(self: Job) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def blocking(self: Job) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


@pytest.mark.parametrize("deafen", [ignoring, blocking])
def test_a_job_that_shuts_signals_out_does_not_keep_the_worker_from_stopping(
    bench: Bench, deafen: Callable[[Job], None]
):
    bench.knows("deafen", deafen)
    bench.knows("stop", told(signal.SIGTERM))
    for name in ("deafen", "stop", "stop"):
        bench.store.add(name)

    reason = bench.work()

    assert reason is Stop.SIGNAL
    assert bench.store.size("default") == Sizes(ready=1)


def test_a_job_that_closes_stderr_does_not_end_the_worker(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    closed = (tmp_path / "stderr").open("w")
    closed.close()
    handler = logging.StreamHandler(closed)
    logging.getLogger("flask_jobs").addHandler(handler)
    monkeypatch.setattr("sys.stderr", closed)
    bench.knows("demo", fail)
    bench.store.add("demo")

    reason = bench.work()

    logging.getLogger("flask_jobs").removeHandler(handler)
    assert reason is Stop.EMPTY
    assert bench.signals() == ["job-processing", "job-released"]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="without timers there are no limits")
def test_a_time_limit_of_centuries_is_one(bench: Bench):
    bench.knows("demo", lambda self: None, timeout=1e11)
    bench.store.add("demo")

    bench.work()

    assert bench.signals() == ["job-processing", "job-processed"]
