"""A waiting worker wakes for work in its queues, costs next to nothing, and listens again after its connection died."""

import socket
import statistics
import threading
import time
from contextlib import contextmanager, suppress

import pytest
import sqlalchemy as sa

from flask_jobs import clock
from flask_jobs.drivers.database import DatabaseDriver
from flask_jobs.envelope import Ack, After, Room
from flask_jobs.ids import new_id
from tests.databases import MARIADB, POSTGRESQL
from tests.faults.support import job

LIMIT = 10.0

# On a busy machine much may take long, but not so long as what is looked at now and then anyway.
PROMPT = 0.5


class Waiting:
    """A worker that waits for one of its queues in a thread, until there is work or it is stopped."""

    def __init__(self, driver, *queues):
        self.turns = 0
        self._driver = driver
        self._queues = queues or ("default",)
        self._stopped = threading.Event()
        self._ended = 0.0
        self._thread = threading.Thread(target=self._wait)
        self._thread.start()
        until(lambda: self.turns > 2)

    @property
    def goes_on(self):
        return self._thread.is_alive()

    def ended(self):
        """The instant at which the wait ended."""
        self._thread.join(LIMIT)
        return self._ended

    def stop(self):
        self._stopped.set()
        self._thread.join(LIMIT)

    def _wait(self):
        self._driver.wait(list(self._queues), timeout=LIMIT, stopping=self._is_stopping)
        self._ended = clock.monotonic()

    def _is_stopping(self):
        self.turns += 1
        return self._stopped.is_set()


def until(condition):
    deadline = clock.monotonic() + LIMIT
    while not condition():
        assert clock.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


def waking(pusher, worker):
    """Seconds from the end of a push until a worker that was waiting knows of it."""
    waiting = Waiting(worker)
    pusher.push([job()])
    pushed = clock.monotonic()
    seconds = waiting.ended() - pushed
    popped = worker.pop(["default"], new_id(), Room()).reservations
    worker.settle([Ack(reservation) for reservation in popped])
    return seconds


@pytest.mark.alone
def test_a_waiting_worker_knows_of_a_pushed_job_soon(server, open_driver):
    pusher, worker = open_driver(), open_driver()

    found = statistics.median(waking(pusher, worker) for _ in range(9))

    assert found < (0.02 if server == POSTGRESQL else 0.2)


@pytest.mark.alone
def test_a_waiting_worker_uses_little_of_a_core(open_driver):
    worker = open_driver()
    worker.wait(["default"], timeout=0.3, stopping=lambda: False)
    before, start = time.process_time(), clock.monotonic()

    worker.wait(["default"], timeout=2.0, stopping=lambda: False)

    assert (time.process_time() - before) / (clock.monotonic() - start) < 0.03


def test_a_paused_queue_and_another_queue_wake_nobody(open_driver):
    pusher, worker = open_driver(), open_driver()
    pusher.pause("default")
    waiting = Waiting(worker)

    pusher.push([job(), job("other"), job(due=After(0.01))])

    turns = waiting.turns
    until(lambda: waiting.turns > turns + 8)
    assert waiting.goes_on
    resumed = clock.monotonic()
    pusher.resume("default")
    assert waiting.ended() - resumed < PROMPT


def test_jobs_within_a_transaction_of_the_apps_wake_with_its_commit(engine, app_engine, open_driver):
    worker = open_driver()
    pusher = DatabaseDriver(engine, app_engine=app_engine, owns_engine=False)
    waiting = Waiting(worker)

    with app_engine.connect() as connection:
        pusher.push_within(connection, [job()])
        turns = waiting.turns
        until(lambda: waiting.turns > turns + 3)
        assert waiting.goes_on
        committed = clock.monotonic()
        connection.commit()

    assert waiting.ended() - committed < PROMPT


def test_what_is_put_back_wakes_the_others(open_driver):
    one, other = open_driver(), open_driver()
    one.push([job()])
    one.pop(["default"], "a-token", Room())
    waiting = Waiting(other)
    put_back = clock.monotonic()

    one.recover("a-token")

    assert waiting.ended() - put_back < PROMPT


@pytest.mark.alone
def test_each_of_several_queues_wakes(open_driver):
    pusher, worker = open_driver(), open_driver()
    for queue in ("first", "second"):
        waiting = Waiting(worker, "first", "second")
        pushed = clock.monotonic()

        pusher.push([job(queue)])

        assert waiting.ended() - pushed < PROMPT
        worker.settle([Ack(one) for one in worker.pop([queue], new_id(), Room()).reservations])


@pytest.mark.alone
class TestAsking:
    """MariaDB gives no word, and is asked on a connection of its own."""

    @pytest.fixture
    def server(self):
        return MARIADB

    def test_who_asks_goes_on_when_the_session_was_ended(self, engine, open_driver):
        pusher, worker = open_driver(), open_driver()
        assert waking(pusher, worker) < PROMPT
        before = sessions(engine)
        with engine.connect() as connection:
            for number in before:
                if number != connection.connection.driver_connection.thread_id():
                    connection.exec_driver_sql(f"KILL {number}")
        until(lambda: len(before & sessions(engine)) <= 1)

        again = statistics.median(waking(pusher, worker) for _ in range(5))

        assert again < 0.2

    def test_who_asks_takes_one_connection(self, engine, open_driver):
        worker = open_driver()
        worker.pop(["default"], "a-token", Room())
        before = sessions(engine)

        for _ in range(3):
            worker.wait(["default"], timeout=0.1, stopping=lambda: False)

        assert len(sessions(engine) - before) == 1

    def test_a_pool_that_is_not_ours_gives_no_connection_away(self, engine, app_engine, open_driver):
        pusher, worker = open_driver(), DatabaseDriver(app_engine, owns_engine=False)
        worker.pop(["default"], "a-token", Room())
        before = sessions(engine)

        worker.wait(["default"], timeout=0.1, stopping=lambda: False)

        assert sessions(engine) <= before
        assert waking(pusher, worker) < PROMPT

    def test_an_answer_that_comes_in_pieces_is_read_whole(self, engine, open_driver):
        with dripping(engine.url) as url:
            pusher, worker = open_driver(), open_driver(url)
            worker.wait(["default"], timeout=1.0, stopping=lambda: False)
            before = sessions(engine)

            worker.wait(["default"], timeout=1.5, stopping=lambda: False)

            assert sessions(engine) <= before
            assert waking(pusher, worker) < LIMIT / 2


@contextmanager
def dripping(url):
    """The url of a proxy before the server that passes on its answers in small pieces, with pauses in between."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        with suppress(OSError):
            while True:
                client = listening.accept()[0]
                server = socket.create_connection((url.host, url.port or 3306))
                threading.Thread(target=pass_on, args=(client, server, 65_536), daemon=True).start()
                threading.Thread(target=pass_on, args=(server, client, 16), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    with listening:
        yield url.set(port=listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)


def pass_on(source, target, size):
    target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with suppress(OSError), source, target:
        while piece := source.recv(size):
            target.sendall(piece)
            if size < 100:
                time.sleep(0.0005)


def sessions(engine):
    """The numbers of the sessions in the database."""
    with engine.connect() as connection:
        text = "SELECT id FROM information_schema.processlist WHERE db = DATABASE()"
        return set(connection.exec_driver_sql(text).scalars())


class TestListening:
    """PostgreSQL's word, and what is beneath it."""

    @pytest.fixture
    def server(self):
        return POSTGRESQL

    def test_a_listener_whose_session_was_ended_listens_again(self, engine, open_driver):
        pusher, worker = open_driver(), open_driver()
        assert waking(pusher, worker) < PROMPT
        with engine.connect() as connection:
            ended = connection.exec_driver_sql(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = current_database() AND query LIKE 'LISTEN%%'"
            ).scalar()

        again = statistics.median(waking(pusher, worker) for _ in range(5))

        assert ended == 1
        assert again < 0.1
        assert listeners(engine) == 1

    def test_without_notify_nobody_listens_and_nobody_is_told(self, engine, open_driver):
        pusher, worker = open_driver(notify=False), open_driver(notify=False)
        told = engine.raw_connection()
        told.driver_connection.execute("LISTEN flask_jobs")

        assert waking(pusher, worker) < PROMPT

        assert listeners(engine) == 1
        assert list(told.driver_connection.notifies(timeout=0.1)) == []
        told.driver_connection.execute("UNLISTEN *")
        told.close()

    def test_nobody_is_told_of_a_paused_queue_until_it_is_resumed(self, engine, driver):
        driver.pause("default")
        told = engine.raw_connection()
        told.driver_connection.execute("LISTEN flask_jobs")

        driver.push([job()])
        driver.push([job(), job("other")])
        while_paused = [one.payload for one in told.driver_connection.notifies(timeout=0.1)]
        driver.resume("default")
        later = [one.payload for one in told.driver_connection.notifies(timeout=0.1)]

        told.driver_connection.execute("UNLISTEN *")
        told.close()
        assert (while_paused, later) == (["other"], ["default"])

    def test_a_job_that_no_word_is_given_of_is_found_all_the_same(self, open_driver):
        pusher, worker = open_driver(notify=False), open_driver()

        assert waking(pusher, worker) < 2.5


def listeners(engine):
    with engine.connect() as connection:
        return connection.execute(
            sa.text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
        ).scalar()
