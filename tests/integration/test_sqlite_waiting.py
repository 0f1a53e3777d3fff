"""A worker that waits on a SQLite file wakes at once and costs next to nothing."""

import statistics
import threading
import time

import pytest

from flask_jobs import clock
from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.envelope import Ack, Envelope, Room
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push

pytestmark = pytest.mark.alone


@pytest.fixture(params=[True, False], ids=["wal", "default-journal"])
def drivers(request, tmp_path):
    drivers = [DatabaseDriver(open_engine(f"sqlite:///{tmp_path / 'jobs.db'}"), wal=request.param) for _ in range(2)]
    for driver in drivers:
        driver.prepare()
    yield drivers
    for driver in drivers:
        driver.close()


def wait_and_pop(driver):
    """The instant at which a worker that was waiting knows of work; it takes the job then."""
    while not driver.size("default").ready:
        driver.wait(["default"], timeout=5.0, stopping=lambda: False)
    woken = clock.monotonic()
    popped = driver.pop(["default"], new_id(), Room()).reservations
    driver.settle([Ack(reservation) for reservation in popped])
    return woken


def waking(pusher, worker):
    """Seconds from the end of a push until a waiting worker knows of it."""
    found = []
    waiting = threading.Thread(target=lambda: found.append(wait_and_pop(worker)))
    waiting.start()
    time.sleep(0.06)
    pusher.push([Push(Envelope(new_id(), "shop.send-invoice", "default", "{}"))])
    pushed = clock.monotonic()
    waiting.join()
    return found[0] - pushed


def test_a_waiting_worker_knows_of_a_pushed_job_within_ten_milliseconds(drivers):
    pusher, worker = drivers

    assert statistics.median(waking(pusher, worker) for _ in range(15)) < 0.010


def test_a_waiting_worker_uses_less_than_a_hundredth_of_a_core(drivers):
    worker = drivers[0]
    worker.wait(["default"], timeout=0.1, stopping=lambda: False)
    before, start = time.process_time(), clock.monotonic()

    worker.wait(["default"], timeout=2.0, stopping=lambda: False)

    assert (time.process_time() - before) / (clock.monotonic() - start) < 0.01


def test_without_word_from_the_kernel_a_push_is_found_all_the_same(drivers, monkeypatch):
    def refuse(*_):
        raise OSError("inotify is not to be had")

    monkeypatch.setattr("flask_jobs.drivers.database.sqlite_watch.FileEvents", refuse)
    pusher, worker = drivers

    assert statistics.median(waking(pusher, worker) for _ in range(5)) < 0.1
