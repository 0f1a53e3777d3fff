from __future__ import annotations

import decimal
import threading
from collections.abc import Callable
from contextvars import ContextVar, copy_context

import pytest
from flask import g

from flask_jobs import Job, current_job
from tests.apps import Shop, note

ROUNDS = 500
locale: ContextVar[str] = ContextVar("locale", default="none")
user: ContextVar[str] = ContextVar("user")


class Write(Job):
    """Leaves something everywhere, and ends in one of the ways in which jobs end."""

    max_attempts = 2
    backoff = 3_600

    def __init__(self, end: str) -> None:
        self.end = end
        if end == "hang":  # only these, for on a busy machine any job may take this long
            self.timeout = 0.05

    def handle(self) -> None:
        g.user = "somebody"
        user.set("somebody")
        locale.set("de_CH")
        decimal.getcontext().prec = 3
        match self.end:
            case "raise":
                raise ValueError("left in the middle")
            case "release":
                current_job.release(3_600)
            case "fail":
                current_job.fail("on purpose")
            case "hang":
                threading.Event().wait(30)


class Read(Job):
    """Notes what it finds of another job."""

    def handle(self) -> None:
        found = [
            "user" in g,
            user.get(None) is not None,
            locale.get() != "none",
            decimal.getcontext().prec == 3,
        ]
        note("leak" if any(found) else "clean")


@pytest.fixture
def shop(jobs_shop: Shop) -> Shop:
    jobs_shop.jobs.register("write")(Write)
    jobs_shop.jobs.register("read")(Read)
    return jobs_shop


def ends() -> list[str]:
    """A timeout takes a while, so there are only a few of them."""
    return [["return", "raise", "release", "fail"][number % 4] if number % 100 else "hang" for number in range(ROUNDS)]


def test_f31_a_worker_shows_no_job_anything_of_another(shop: Shop) -> None:
    shop.jobs.dispatch_many(job for end in ends() for job in (Write(end), Read()))

    shop.work()

    assert shop.noted == ["clean"] * ROUNDS
    assert shop.driver().count_failed(name="write") == ends().count("fail")
    assert shop.driver().size("default").delayed == sum(ends().count(end) for end in ("raise", "release", "hang"))


def test_f31_the_fake_shows_no_job_anything_of_another(shop: Shop) -> None:
    with shop.jobs.fake() as queue:
        shop.jobs.dispatch_many(job for end in ends() for job in (Write(end), Read()))
        queue.drain(limit=2 * ROUNDS + 1)

    assert shop.noted == ["clean"] * ROUNDS


def test_f31_a_sync_job_shows_nothing_to_the_next_nor_to_its_caller(shop: Shop) -> None:
    for end in ("return", "raise", "release", "fail") * 25:
        try:
            shop.jobs.dispatch(Write(end), connection="sync")
        except Exception:  # how it fails is no matter here
            assert end in ("raise", "fail")
        shop.jobs.dispatch(Read(), connection="sync")

    assert shop.noted == ["clean"] * 100
    assert "user" not in g
    assert (user.get(None), locale.get()) == (None, "none")
    assert decimal.getcontext().prec != 3


@pytest.mark.parametrize("connection", ["sync", "database", "fake"])
def test_f31_nothing_of_the_dispatching_request_travels_with_the_job(
    open_shop: Callable[..., Shop], connection: str
) -> None:
    shop = open_shop()
    shop.jobs.register("read")(Read)

    @shop.app.post("/")
    def index() -> str:
        g.user = "the caller"
        user.set("the caller")
        locale.set("de_CH")
        if connection == "fake":
            with shop.jobs.fake() as queue:
                shop.jobs.dispatch(Read())
                queue.drain()
        else:
            shop.jobs.dispatch(Read(), connection=connection)
        assert g.user == user.get() == "the caller"
        return "ok"

    # A test client calls the app in its own context, which the next test would find.
    assert copy_context().run(shop.app.test_client().post, "/").text == "ok"
    shop.work()

    assert shop.noted == ["clean"]
