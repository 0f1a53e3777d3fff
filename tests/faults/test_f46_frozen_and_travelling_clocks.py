from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import freezegun
import pytest
import time_machine

from flask_jobs.envelope import Room
from flask_jobs.ids import new_id
from tests.apps import Note, Shop, worker

FUTURE = dt.datetime(2031, 5, 4, 3, 2, 1, tzinfo=dt.UTC)
PAST = dt.datetime(2001, 5, 4, 3, 2, 1, tzinfo=dt.UTC)


@contextmanager
def frozen_by_freezegun(at: dt.datetime) -> Iterator[Callable[[float], None]]:
    with freezegun.freeze_time(at) as clock:
        yield lambda seconds: clock.tick(dt.timedelta(seconds=seconds))


@contextmanager
def frozen_by_time_machine(at: dt.datetime) -> Iterator[Callable[[float], None]]:
    with time_machine.travel(at, tick=False) as traveller:
        yield traveller.shift


Freeze = Callable[[dt.datetime], Any]
each_freeze = pytest.mark.parametrize("freeze", [frozen_by_freezegun, frozen_by_time_machine])
each_instant = pytest.mark.parametrize("at", [FUTURE, PAST], ids=["future", "past"])


@pytest.fixture
def shop(open_shop: Callable[..., Shop]) -> Iterator[Shop]:
    shop = open_shop(TESTING=True)
    with shop.context():
        yield shop


@each_freeze
@each_instant
def test_f46_a_delayed_job_runs_when_the_tests_clock_says_so(shop: Shop, freeze: Freeze, at: dt.datetime) -> None:
    with freeze(at) as move:
        shop.jobs.dispatch(Note("sqlite"), delay=3_600)
        shop.work()
        assert shop.noted == []
        move(3_599)
        shop.work()
        assert shop.noted == []
        move(1.01)
        shop.work()

    assert shop.noted == ["sqlite"]


@each_freeze
@each_instant
def test_f46_the_fake_runs_it_when_the_tests_clock_says_so(shop: Shop, freeze: Freeze, at: dt.datetime) -> None:
    with freeze(at) as move, shop.jobs.fake() as queue:
        shop.jobs.dispatch(Note("fake"), delay=3_600)
        assert queue.drain() == []
        move(3_600)
        assert len(queue.drain()) == 1

    assert shop.noted == ["fake"]


@each_freeze
def test_f46_sync_does_not_wait_whatever_the_clock_says(shop: Shop, freeze: Freeze) -> None:
    with freeze(FUTURE):
        shop.jobs.dispatch(Note("sync"), delay=3_600, connection="sync")

    assert shop.noted == ["sync"]


@each_freeze
@each_instant
def test_f46_a_worker_thread_starts_works_and_stops_under_a_frozen_clock(
    shop: Shop, freeze: Freeze, at: dt.datetime
) -> None:
    with freeze(at):
        running = worker(shop.app, stop_when_empty=False)
        thread = threading.Thread(target=running.run)
        thread.start()
        with shop.context():
            shop.jobs.dispatch(Note("x"))
        wait_for(lambda: shop.noted == ["x"])
        running.stop()
        thread.join(10)

    assert not thread.is_alive()


@each_freeze
@each_instant
def test_f46_after_the_freeze_the_store_is_as_good_as_before(shop: Shop, freeze: Freeze, at: dt.datetime) -> None:
    with freeze(at):
        shop.jobs.dispatch(Note("frozen"))
        shop.work()

    shop.jobs.dispatch(Note("thawed"))
    shop.work()

    assert shop.noted == ["frozen", "thawed"]
    sizes = shop.driver().size("default")
    assert (sizes.ready, sizes.delayed, sizes.reserved) == (0, 0, 0)


@each_freeze
def test_f46_a_lease_is_never_written_by_a_frozen_clock_unless_testing(
    open_shop: Callable[..., Shop], freeze: Freeze
) -> None:
    shop = open_shop(TESTING=False)
    real = time.time()
    with shop.context(), freeze(FUTURE):
        answer = shop.jobs.dispatch(Note("x"))
        shop.driver().pop(["default"], new_id(), Room())

    leased_until = shop.driver().find(answer.id).leased_until
    assert real + 80 < leased_until < real + 120


@pytest.mark.parametrize(
    ("config", "is_local"),
    [
        ({"TESTING": True}, True),
        ({"TESTING": False}, False),
        ({"TESTING": True, "JOBS_CONNECTIONS": {"database": {"clock": "store"}}}, False),
        ({"TESTING": False, "JOBS_CONNECTIONS": {"database": {"clock": "local"}}}, True),
    ],
)
def test_f46_the_clock_is_the_tests_while_testing_unless_it_is_set(
    open_shop: Callable[..., Shop], config: dict[str, Any], is_local: bool
) -> None:
    shop = open_shop(**config)
    with shop.context(), time_machine.travel(FUTURE, tick=False):
        shop.jobs.dispatch(Note("x"))
        popped = shop.driver().pop(["default"], new_id(), Room())

    assert (abs(popped.now - FUTURE.timestamp()) < 1) is is_local


@each_freeze
def test_f46_ids_made_under_a_frozen_clock_are_still_different(shop: Shop, freeze: Freeze) -> None:
    with freeze(FUTURE):
        answers = shop.jobs.dispatch_many(Note("x") for _ in range(5_000))

    ids = [answer.id for answer in answers]
    assert ids == sorted(set(ids))


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.clock_gettime(time.CLOCK_MONOTONIC) + 20
    while not condition():
        assert time.clock_gettime(time.CLOCK_MONOTONIC) < deadline, "it did not come true"
        threading.Event().wait(0.005)
