from __future__ import annotations

import asyncio
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


@pytest.fixture
def shop(jobs_shop: Shop) -> Shop:
    for name, cls in {"sleep": Sleep, "inner": Inner, "hang": Hang}.items():
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


def test_a_timeout_is_an_error_that_a_caller_can_catch(shop: Shop) -> None:
    began = time.monotonic()

    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        shop.jobs.dispatch(Sleep(), connection="sync")

    assert time.monotonic() - began < 10


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


def test_the_outer_jobs_time_limit_stops_both(shop: Shop) -> None:
    result = nest(shop, Hang(), timeout=0.05)

    assert isinstance(result.outcome, TimedOut)
    assert result.outcome.limit == 0.05
    assert shop.noted == []


def test_an_inner_jobs_own_timeout_is_an_error_of_the_outer(shop: Shop) -> None:
    nest(shop, Sleep()).assert_failed_with(TimeoutError)


def test_a_worker_that_is_told_twice_to_stop_stops_both(shop: Shop) -> None:
    class Outer(Job):
        def handle(self) -> None:
            import os
            import signal

            for _ in range(2):
                os.kill(os.getpid(), signal.SIGTERM)
            shop.jobs.dispatch(Hang(), connection="sync")
            note("went on")

    shop.jobs.register("outer")(Outer)
    shop.jobs.dispatch(Outer())

    stop = shop.work()

    assert (stop.exit_code, shop.noted) == (1, [])
    [stored] = shop.driver().jobs("default")
    assert (stored.counters.attempts, stored.counters.interruptions) == (0, 1)
