"""Middleware where the jobs, locks and counts live in the SQLite file that the jobs' own bodies write to."""

from __future__ import annotations

import time

import pytest

from flask_jobs import Job, Limit, RateLimited, ThrottlesExceptions, WithoutOverlapping
from tests.apps import Order, Shop, note

# Well below what a connection waits for another one's write lock.
SOON = 3


@pytest.fixture
def shop(tmp_path):
    shop = Shop("flask_sqlalchemy", tmp_path)
    with shop.context():
        shop.driver().prepare()
        yield shop
    shop.close()


def register(shop, layers, *, name="charge"):
    """A job that writes, and raises before it has committed."""

    class Charge(Job):
        max_attempts = 1

        def middleware(self):
            return layers

        def handle(self):
            shop.session.add(Order(state="charged"))
            shop.session.flush()
            note("charged")
            raise ConnectionError("the bank does not answer")

    return shop.jobs.register(name)(Charge)


def work_timed(shop):
    began = time.monotonic()
    shop.work()
    return time.monotonic() - began


def test_an_error_after_a_flush_is_counted_and_nothing_waits_for_the_bodys_write_lock(shop, caplog):
    charge = register(shop, [ThrottlesExceptions("bank", max_exceptions=1, decay=100)])
    shop.jobs.dispatch(charge())
    shop.jobs.dispatch(charge())

    took = work_timed(shop)

    assert shop.noted == ["charged"]
    assert took < SOON
    assert "could not finish" not in caplog.text


def test_a_lock_is_let_go_of_after_a_body_that_flushed_and_raised(shop, caplog):
    charge = register(shop, [WithoutOverlapping("account", release_after=100)])
    shop.jobs.dispatch_many([charge(), charge()])

    took = work_timed(shop)

    assert shop.noted == ["charged", "charged"]
    assert took < SOON
    assert "could not finish" not in caplog.text


def test_a_start_that_was_not_used_is_given_back_though_a_middleware_has_flushed(shop, caplog):
    class Refuses:
        def handle(self, job, call_next):
            shop.session.add(Order(state="looked at"))
            shop.session.flush()
            raise ConnectionError("nobody may be charged today")

    shop.jobs.limiter("bank", lambda job: Limit.per_day(1))
    refused = register(shop, [RateLimited("bank"), Refuses()], name="refused")
    charge = register(shop, [RateLimited("bank")])
    shop.jobs.dispatch_many([refused(), charge()])

    took = work_timed(shop)

    assert shop.noted == ["charged"]
    assert took < SOON
    assert "could not finish" not in caplog.text


def test_what_is_told_of_an_open_circuit_may_use_the_session_which_is_removed_again(shop):
    def report(error):
        shop.session.add(Order(state=f"told: {error}"))
        shop.session.commit()
        shop.session.add(Order(state="never committed"))
        shop.session.flush()

    charge = register(shop, [ThrottlesExceptions("bank", max_exceptions=1, decay=100, report=report)])
    shop.jobs.dispatch(charge())

    took = work_timed(shop)

    assert [order.state for order in shop.session.query(Order)] == ["told: the bank does not answer"]
    assert shop.driver().count_failed() == 1
    assert took < SOON
