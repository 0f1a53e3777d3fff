"""Waking idle workers: at once, none for nothing, and no wake-up lost to a worker of another queue."""

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from flask_jobs.drivers.redis import driver as redis_driver
from flask_jobs.envelope import After
from flask_jobs.pushes import Push
from flask_jobs.testing.contract.support import envelope, pop, pop_one, push, roomy

from ...servers import wait_until

pytestmark = pytest.mark.alone


class Idle:
    """An idle worker in a thread of its own, which waits once."""

    def __init__(self, driver, *queues):
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._wait, args=(driver, queues))
        self.woken_after = None
        self._start = time.monotonic()
        self._thread.start()

    def _wait(self, driver, queues):
        driver.wait(list(queues), timeout=20.0, stopping=self.stopping.is_set)
        self.woken_after = time.monotonic() - self._start

    @property
    def is_asleep(self):
        return self._thread.is_alive()

    def end(self):
        self.stopping.set()
        self._thread.join()


@pytest.fixture
def idle(open_driver, client, prefix):
    workers = []

    def idle(*queues):
        workers.append(Idle(open_driver(), *queues))
        return workers[-1]

    yield idle
    for worker in workers:
        worker.end()


@pytest.fixture
def only_woken(monkeypatch):
    """Workers do not look by themselves for so long that only a wake-up can end their sleep."""
    monkeypatch.setattr(redis_driver, "LOOK_EVERY", 4.0)


def blocked(client):
    return sum(item["cmd"] == "blpop" and "b" in item["flags"] for item in client.client_list())


def asleep(client, number):
    wait_until(lambda: blocked(client) >= number, what="workers that sleep")


def awake(workers):
    return [worker for worker in workers if not worker.is_asleep]


def test_one_push_wakes_one_of_several_workers(driver, idle, client):
    workers = [idle("default") for _ in range(3)]
    asleep(client, 3)

    push(driver)
    wait_until(lambda: awake(workers), what="a worker")
    pop_one(driver)
    time.sleep(0.6)  # longer than a turn of the wait, so that a second one would have woken

    assert len(awake(workers)) == 1


def test_a_push_of_many_wakes_many(driver, idle, client, only_woken):
    workers = [idle("default") for _ in range(4)]
    asleep(client, 4)

    push(driver, 4)

    wait_until(lambda: len(awake(workers)) == 4, what="four workers", within=2.0)


def test_a_worker_of_another_queue_sleeps_on(driver, idle, client):
    worker = idle("other")
    asleep(client, 1)

    push(driver)
    time.sleep(0.6)

    assert worker.is_asleep


def test_a_wake_up_that_a_busier_worker_used_is_passed_on_to_one_that_serves_the_queue(
    driver, idle, client, only_woken
):
    busy = idle("high", "low")
    asleep(client, 1)
    worker = idle("low")
    asleep(client, 2)
    # Who has slept longest is woken, and then finds work in a queue that comes first.
    push(driver, queue="low")
    wait_until(lambda: not busy.is_asleep, what="the worker of both queues", within=1.0)
    push(driver, queue="high")
    was_asleep = worker.is_asleep

    pop_one(driver, "high", "low")

    assert was_asleep
    wait_until(lambda: not worker.is_asleep, what="the worker of the low queue", within=1.0)


def test_a_worker_that_was_woken_and_died_is_made_up_for(driver, idle, client):
    worker = idle("default")
    asleep(client, 1)
    prefix = driver._keys.head
    push(driver, queue="default", due=After(0.0))
    client.delete(f"{prefix}notify:default")

    wait_until(lambda: not worker.is_asleep, what="the worker's own look", within=2.0)


def test_a_paused_queue_wakes_nobody_and_a_resumed_one_does(driver, idle, client, only_woken):
    driver.pause("default")
    worker = idle("default")
    asleep(client, 1)
    push(driver)
    time.sleep(0.6)
    was_asleep = worker.is_asleep

    driver.resume("default")

    assert was_asleep
    wait_until(lambda: not worker.is_asleep, what="the worker", within=2.0)


def test_a_job_that_becomes_the_next_due_is_slept_for_by_the_clock(driver, idle, client, only_woken):
    push(driver, due=After(60.0))
    worker = idle("default")
    asleep(client, 1)

    push(driver, due=After(0.1))
    pushed = time.monotonic()
    wait_until(lambda: not worker.is_asleep, what="the worker", within=2.0)

    assert 0.09 < time.monotonic() - pushed < 0.4
    assert pop_one(driver)


def test_a_stop_is_noticed_by_a_thread_within_a_moment(idle, client, only_woken):
    worker = idle("default")
    asleep(client, 1)

    worker.stopping.set()
    told = time.monotonic()
    wait_until(lambda: not worker.is_asleep, what="the worker")

    assert time.monotonic() - told < 0.3


def test_a_signal_ends_the_wait_of_the_main_thread_at_once(driver, only_woken):
    told = []
    previous = signal.signal(signal.SIGALRM, lambda number, frame: told.append(time.monotonic()))
    signal.setitimer(signal.ITIMER_REAL, 0.15)

    driver.wait(["default"], timeout=20.0, stopping=lambda: bool(told))
    took = time.monotonic() - told[0]
    signal.signal(signal.SIGALRM, previous)

    assert took < 0.05


def test_a_signal_that_is_no_stop_leaves_the_wait_asleep(driver, only_woken):
    told, asked = [], []
    previous = signal.signal(signal.SIGALRM, lambda number, frame: told.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    start = time.monotonic()

    driver.wait(["default"], timeout=0.3, stopping=lambda: bool(asked.append(1)))
    took = time.monotonic() - start
    signal.signal(signal.SIGALRM, previous)

    assert told
    assert took >= 0.3
    assert len(asked) < 10


def test_a_wait_leaves_alone_whoever_is_woken_by_signals_already(driver):
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    signal.set_wakeup_fd(theirs.fileno())

    driver.wait(["default"], timeout=0.05, stopping=lambda: False)
    left = signal.set_wakeup_fd(-1)

    assert left == theirs.fileno()
    ours.close()
    theirs.close()


def test_a_worker_that_has_stopped_is_not_woken_instead_of_another(own_server, open_driver, only_woken):
    # On a server of its own, for nobody else may sleep there.
    client = own_server.client()
    stopped = Idle(open_driver(own_server.url), "default")
    asleep(client, 1)
    stopped.end()
    wait_until(lambda: not blocked(client), what="the end of its sleep on the server", within=2.0)
    worker = Idle(open_driver(own_server.url), "default")
    asleep(client, 1)

    push(open_driver(own_server.url))

    wait_until(lambda: not worker.is_asleep, what="the worker that is left", within=1.0)


def test_an_empty_pop_leaves_no_wake_up_behind(driver, client):
    push(driver, 40)
    pop(driver, room=roomy())

    assert not client.exists(f"{driver._keys.head}notify:default")


def test_the_notify_list_stays_short_while_nobody_waits(driver, client):
    for _ in range(50):
        push(driver, 20)

    assert client.llen(f"{driver._keys.head}notify:default") <= 32


def test_waiting_holds_one_connection_however_many_queues_there_are(driver, idle, client, only_woken):
    queues = [f"queue-{number}" for number in range(20)]
    before = client.info("clients")["connected_clients"]

    worker = idle(*queues)
    asleep(client, 1)

    assert client.info("clients")["connected_clients"] <= before + 2
    push(driver, queue="queue-19")
    wait_until(lambda: not worker.is_asleep, what="the worker", within=2.0)


def test_an_idle_worker_costs_next_to_nothing(driver):
    spent = time.process_time()

    driver.wait(["default"], timeout=2.0, stopping=lambda: False)

    assert (time.process_time() - spent) / 2.0 < 0.01


def test_a_push_from_another_process_is_picked_up_in_a_few_milliseconds(driver, redis_url, prefix):
    program = textwrap.dedent(
        """
        import sys, time
        from flask_jobs.drivers.redis.driver import RedisDriver
        from flask_jobs.envelope import Envelope
        from flask_jobs.pushes import Push
        from flask_jobs.ids import new_id
        driver = RedisDriver(sys.argv[1], prefix=sys.argv[2], connection="redis")
        for _ in range(60):
            time.sleep(0.01)
            driver.push([Push(Envelope(new_id(), "a", "default", repr(time.time())))])
        """
    )
    producer = subprocess.Popen([sys.executable, "-c", program, redis_url, prefix], env=dict(os.environ))
    latencies = []
    while len(latencies) < 60:
        driver.wait(["default"], timeout=5.0, stopping=lambda: False)
        latencies += [time.time() - float(held.envelope.body) for held in pop(driver).reservations]
    producer.wait(10)

    # The figure to reach is a millisecond on a quiet machine; tests share theirs with others.
    assert sorted(latencies)[30] < 0.01


def test_a_dispatch_beside_workers_that_wait_is_not_held_up(driver, idle, client):
    for _ in range(3):
        idle("default")
    asleep(client, 3)

    start = time.monotonic()
    driver.push([Push(envelope(queue="other"))])

    assert time.monotonic() - start < 0.1
