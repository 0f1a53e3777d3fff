"""However many jobs wait for a limit, each is popped a few times only: it comes back in its own turn."""

from __future__ import annotations

import datetime as dt
import time

import pytest
import time_machine

from flask_jobs import Limit, RateLimited
from flask_jobs.envelope import Event

from .conftest import STORES
from .test_on_each_store import register

WINDOW = 20


class Counting:
    """Counts what is popped."""

    def __init__(self) -> None:
        self.popped = 0
        self.limited = RateLimited("emails")

    def handle(self, job, call_next):
        self.popped += 1
        self.limited.handle(job, call_next)


def pops_per_job(shop, jobs, limit):
    """Run so many jobs behind a limit of so many per window, and tell how often each was popped in the mean."""
    counting, done = Counting(), []
    shop.jobs.limiter("emails", lambda job: Limit.every(WINDOW, limit))
    mail = register(shop, layers=[counting], body=lambda job: done.append(time.time()))
    with shop.context(), time_machine.travel(dt.datetime.now(dt.UTC), tick=True) as traveller:
        for first in range(0, jobs, 1_000):
            shop.jobs.dispatch_many(mail() for _ in range(min(1_000, jobs - first)))
        while len(done) < jobs:
            shop.work()
            traveller.shift(WINDOW - time.time() % WINDOW + 0.01)
        left = shop.driver().size("default")

    assert (left.ready, left.delayed, left.reserved) == (0, 0, 0)
    assert shop.driver().count_failed() == 0
    windows = [at // WINDOW for at in done]
    # A job that was let through at the very end of a window may begin in the next one.
    assert max(windows.count(window) for window in set(windows)) <= limit + 1
    return counting.popped / jobs


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("store", STORES)
def test_jobs_behind_a_limit_are_popped_fewer_than_three_times_each(open_on, store):
    pops = pops_per_job(open_on(store, clock="local"), 200, limit=20)
    print(f"{pops:.2f} pops for each job")

    assert 1 < pops < 3


@pytest.mark.volume
@pytest.mark.timeout(2_400)
@pytest.mark.parametrize("store", STORES)
def test_ten_thousand_jobs_behind_a_limit_are_popped_fewer_than_three_times_each(open_on, store):
    pops = pops_per_job(open_on(store, clock="local"), 10_000, limit=100)
    print(f"{pops:.2f} pops for each job")

    assert 1 < pops < 3


@pytest.mark.slow
def test_cancelled_jobs_leave_their_turns_to_those_that_come_after(open_on, store):
    shop = open_on(store)
    shop.jobs.limiter("emails", lambda job: Limit.every(200_000))
    mail = register(shop, layers=[RateLimited("emails")])
    with shop.context():
        shop.jobs.dispatch(mail())
        shop.work()
        turns = [shop.jobs.dispatch(mail()) for _ in range(3)]
        shop.work()
        due = [shop.driver().find(turn.id).due for turn in turns]

        cancelled = shop.driver().cancel(turns[0].id)
        next_one = shop.jobs.dispatch(mail())
        shop.work()
        found = shop.driver().find(next_one.id)

    assert cancelled
    assert due == sorted(due)
    assert found.due == pytest.approx(due[0], abs=1)
    assert found.history[0].event is Event.RELEASED
