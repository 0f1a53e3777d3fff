from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobs import Job, Status, current_job, job_released
from flask_jobs.outcome import TimedOut
from tests.apps import Burst, Note, Order, Ship, Shop, note


class Sleep(Job):
    """Sleeps on an event loop, longer than it may."""

    timeout = 0.05

    async def handle(self) -> None:
        await asyncio.sleep(30)


class Inner(Job):
    def handle(self) -> None:
        note(f"inner {current_job.name}")


class Hang(Job):
    def handle(self) -> None:
        threading.Event().wait(30)


class Stuck(Hang):
    """Waits on, longer than it may."""

    timeout = 0.05


class Patient(Hang):
    """May wait longer than a test does."""

    timeout = 60


class Slow(Job):
    timeout = 0.05

    def handle(self) -> None:
        threading.Event().wait(0.2)
        note("ran to its end")


class StopsTwice(Job):
    """Has its worker told to stop, and to stop at once."""

    timeout = 60

    def handle(self) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        threading.Event().wait(30)


_JOBS: dict[str, type[Job]] = {
    cls.__name__.lower(): cls for cls in (Sleep, Inner, Hang, Stuck, Patient, Slow, StopsTwice)
}


@pytest.fixture
def shop(jobs_shop: Shop) -> Shop:
    for name, cls in _JOBS.items():
        jobs_shop.jobs.register(name)(cls)
    return jobs_shop


def nest(shop: Shop, inner: Job, *, timeout: float = 30) -> Any:
    """The result of a job that dispatches another one to sync."""

    class Outer(Job):
        max_attempts = 1

        def handle(self) -> None:
            shop.jobs.dispatch(inner, connection="sync")
            note(f"outer {current_job.name}")

    shop.jobs.register("outer")(Outer)
    job = Outer()
    job.timeout = timeout
    return shop.jobs.run(job)


def test_a_job_has_run_when_its_dispatch_returns(shop: Shop) -> None:
    answer = shop.jobs.dispatch(Note("x"), connection="sync", delay=3_600)

    assert (answer.status, shop.noted) == (Status.RAN, ["x"])


def test_an_error_reaches_the_caller_once_the_failure_is_told(shop: Shop) -> None:
    with pytest.raises(ValueError, match="burst x"):
        shop.jobs.dispatch(Burst("x"), connection="sync")

    assert shop.noted == ["x", "x failed: ValueError"]


def test_a_failing_job_is_an_ordinary_error_of_the_request(shop: Shop) -> None:
    @shop.app.post("/")
    def index() -> str:
        shop.jobs.dispatch(Burst("x"), connection="sync")
        return "never"

    assert shop.app.test_client().post("/").status_code == 500


@pytest.mark.parametrize("job", [Sleep, Stuck])
def test_a_timeout_is_an_error_that_a_caller_can_catch(shop: Shop, job: type[Job]) -> None:
    began = time.monotonic()

    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        shop.jobs.dispatch(job(), connection="sync")

    assert time.monotonic() - began < 10


def test_a_timer_from_before_runs_on_after_a_job_with_a_time_limit(shop: Shop) -> None:
    fired: list[int] = []
    handler = signal.signal(signal.SIGALRM, lambda number, frame: fired.append(number))
    timer = signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(TimeoutError):
            shop.jobs.dispatch(Stuck(), connection="sync")
        until = time.monotonic() + 10
        while not fired and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)

    assert fired == [signal.SIGALRM]


def test_in_a_thread_a_job_runs_to_its_end_and_one_warning_says_why(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    def dispatch() -> None:
        with shop.app.app_context():
            shop.jobs.dispatch(Slow(), connection="sync")

    for _ in range(2):
        thread = threading.Thread(target=dispatch)
        thread.start()
        thread.join()

    assert shop.noted == ["ran to its end"] * 2
    assert caplog.text.count("Time limits cannot be enforced in this thread") == 1


def test_a_job_that_puts_itself_back_is_only_told_of(shop: Shop) -> None:
    class Later(Job):
        def handle(self) -> None:
            current_job.release(60)

    shop.jobs.register("later")(Later)
    heard: list[float] = []

    def released(sender: object, **facts: Any) -> None:
        heard.append(facts["delay"])

    with job_released.connected_to(released):
        shop.jobs.dispatch(Later(), connection="sync")

    assert heard == [60]


def test_the_callers_session_is_put_back_untouched(each_shop: Shop) -> None:
    order = each_shop.add_order("new")
    order.state = "half-way"
    before = each_shop.session.connection() if each_shop.kind != "scoped_session" else None

    each_shop.jobs.dispatch(Ship(order), connection="sync", after_commit=False)

    assert each_shop.noted == ["ship new"]
    assert order in each_shop.session
    assert order in each_shop.session.dirty
    assert before is None or each_shop.session.connection() is before
    each_shop.session.commit()
    assert each_shop.session.scalars(sa.select(Order.state)).all() == ["half-way"]


def test_a_job_within_a_job_is_the_current_one_as_long_as_it_runs(shop: Shop) -> None:
    nest(shop, Inner()).assert_done()

    assert shop.noted == ["inner inner", "outer outer"]


@pytest.mark.parametrize("inner", [Hang, Patient])
def test_the_outer_jobs_time_limit_stops_both(shop: Shop, inner: type[Job]) -> None:
    began = time.monotonic()

    result = nest(shop, inner(), timeout=0.05)

    assert isinstance(result.outcome, TimedOut)
    assert result.outcome.limit == 0.05
    assert shop.noted == []
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("inner", [Sleep, Stuck])
def test_an_inner_jobs_own_timeout_is_an_error_of_the_outer(shop: Shop, inner: type[Job]) -> None:
    nest(shop, inner()).assert_failed_with(TimeoutError, match="0.05 s")


@pytest.mark.parametrize("inner", [Stuck, Inner])
def test_the_outer_jobs_time_limit_holds_after_an_inner_one(shop: Shop, inner: type[Job]) -> None:
    class Outer(Job):
        timeout = 0.5

        def handle(self) -> None:
            with contextlib.suppress(TimeoutError):
                shop.jobs.dispatch(inner(), connection="sync")
            note("went on")
            threading.Event().wait(30)

    shop.jobs.register("outer")(Outer)

    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"outer .*limit of 0\.5 s"):
        shop.jobs.dispatch(Outer(), connection="sync")

    assert shop.noted[-1] == "went on"
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("timeout", [None, 60])
def test_a_worker_that_is_told_twice_to_stop_stops_both(shop: Shop, timeout: float | None) -> None:
    class Outer(Job):
        def handle(self) -> None:
            shop.jobs.dispatch(StopsTwice(), connection="sync")
            note("went on")

    Outer.timeout = timeout

    shop.jobs.register("outer")(Outer)
    shop.jobs.dispatch(Outer())

    stop = shop.work()

    assert (stop.exit_code, shop.noted) == (1, [])
    [stored] = shop.driver().jobs("default")
    assert (stored.counters.attempts, stored.counters.interruptions) == (0, 1)
