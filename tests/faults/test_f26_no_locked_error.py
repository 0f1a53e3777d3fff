"""The app, its workers and their leases write to one SQLite file, and nobody sees "database is locked"."""

import sqlite3
import threading

import pytest

from flask_jobs import clock
from flask_jobs.envelope import Room

from .support import answer, job, open_driver, start

pytestmark = pytest.mark.alone


class WebThread:
    """A part of the app that writes a row every few milliseconds."""

    def __init__(self, file):
        self.taken = []
        self.errors = []
        self._file = file
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def stop(self):
        self._stopped.set()
        self._thread.join()

    def _write(self):
        connection = sqlite3.connect(self._file, timeout=5.0)
        while not self._stopped.wait(0.01):
            before = clock.monotonic()
            try:
                connection.execute("INSERT INTO invoices (job) VALUES ('web')")
                connection.commit()
            except sqlite3.Error as error:
                self.errors.append(error)
            self.taken.append(clock.monotonic() - before)
        connection.close()


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "app.db"
    connection = sqlite3.connect(file)
    connection.execute("CREATE TABLE invoices (id INTEGER PRIMARY KEY, job TEXT)")
    connection.close()
    return file


# SQLite serves those who wait for its lock in no order, so that on a busy machine a write may have bad luck: in the
# usual run one in fifty may be slow, in the one that wants a machine for itself none.
@pytest.mark.parametrize(("amount", "slow"), [(300, 0.02), pytest.param(2_000, 0.0, marks=pytest.mark.volume)])
def test_f26_workers_heartbeats_and_web_share_one_file(file, amount, slow):
    driver = open_driver(file)
    ids = [pushed.id for pushed in driver.push([job() for _ in range(amount)])]
    web = WebThread(file)
    try:
        answers = [answer(worker) for worker in [start("busy_worker.py", file) for _ in range(4)]]
    finally:
        web.stop()

    assert [found["errors"] for found in answers] == [[]] * 4
    assert sorted(job_id for found in answers for job_id in found["done"]) == sorted(ids)
    assert web.errors == []
    assert sum(seconds >= 1.0 for seconds in web.taken) <= slow * len(web.taken)
    driver.close()


def test_f26_a_transaction_held_open_delays_the_others_and_breaks_none(file):
    driver = open_driver(file)
    driver.push([job(body="hold"), *(job() for _ in range(50))])

    answers = [answer(worker) for worker in [start("busy_worker.py", file) for _ in range(3)]]

    assert [found["errors"] for found in answers] == [[]] * 3
    assert sum(len(found["done"]) for found in answers) == 51
    driver.close()


def test_f26_an_idle_queue_is_polled_without_the_write_lock(file):
    driver = open_driver(file)
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    before = clock.monotonic()

    popped = driver.pop(["default"], "token", Room())

    assert popped.reservations == ()
    assert clock.monotonic() - before < 1.0
    writer.close()
    driver.close()
