"""Many jobs at one instant: no other client waits long, and nothing starves. The full size under `volume`."""

import threading
import time

import pytest

from flask_jobs.driver import PORTION
from flask_jobs.envelope import Ack, At, Envelope
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push
from flask_jobs.stored import Sizes
from flask_jobs.testing.contract.support import id_list, pop, roomy

pytestmark = pytest.mark.alone

sizes = pytest.mark.parametrize("amount", [3_000, pytest.param(50_000, marks=pytest.mark.volume)])


def bearable(amount):
    """Seconds that another client may wait at most. In reduced size, tests share their machine with others."""
    return 0.25 if amount >= 20_000 else 2.0


class LongestWait:
    """Another client of the server, and how long it waited at most for an answer."""

    def __init__(self, client):
        self._client = client
        self._done = threading.Event()
        self.seconds = 0.0

    def __enter__(self):
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    def _watch(self):
        while not self._done.is_set():
            start = time.monotonic()
            self._client.ping()
            self.seconds = max(self.seconds, time.monotonic() - start)
            time.sleep(0.001)


def push_all(driver, amount, **options):
    ids = []
    for _ in range(0, amount, PORTION):
        pushes = [Push(Envelope(new_id(), "shop.mail", "default", "x" * 200), **options) for _ in range(PORTION)]
        ids += [answer.id for answer in driver.push(pushes)]
    return ids


def drain(driver, limit=50):
    room = roomy(limit, names=["shop.mail"])
    taken = []
    popped = pop(driver, room=room)
    while popped.reservations:
        taken += id_list(popped.reservations)
        exchange = driver.exchange([Ack(held) for held in popped.reservations], ["default"], new_id(), room)
        assert exchange.stale == ()
        popped = exchange.popped
    return taken


@sizes
def test_f27_jobs_due_in_the_same_second_hold_up_nobody(driver, client, amount):
    with LongestWait(client) as other:
        ids = push_all(driver, amount, due=At(time.time() + 0.5))
        time.sleep(0.6)
        fresh = push_all(driver, PORTION)

        first = drain_some(driver, 2 * PORTION)
        rest = drain(driver)

    assert len(set(fresh).intersection(first)) == PORTION
    assert sorted([*first, *rest]) == sorted([*ids, *fresh])
    assert driver.size("default") == Sizes()
    assert other.seconds < bearable(amount)


def drain_some(driver, amount):
    taken = []
    while len(taken) < amount:
        reservations = pop(driver, room=roomy(50, names=["shop.mail"])).reservations
        taken += id_list(reservations)
        driver.settle([Ack(held) for held in reservations])
    return taken


@pytest.mark.parametrize("amount", [2_000, pytest.param(20_000, marks=pytest.mark.volume)])
def test_f27_leases_that_expire_together_are_taken_in_by_portions(open_driver, client, amount):
    holder = open_driver(retry_after=1.0)
    ids = push_all(holder, amount)
    room = roomy(PORTION, names=["shop.mail"])
    while pop(holder, room=room).reservations:
        pass
    time.sleep(1.1)

    with LongestWait(client) as other:
        worker = open_driver(retry_after=60.0)
        taken = drain(worker)

    assert sorted(taken) == sorted(ids)
    assert worker.size("default") == Sizes()
    assert other.seconds < bearable(amount)


@pytest.mark.parametrize("amount", [5_000, pytest.param(300_000, marks=pytest.mark.volume)])
def test_popping_is_as_fast_beside_many_delayed_jobs(driver, amount):
    def seconds_for(number):
        push_all(driver, number)
        start = time.monotonic()
        drain_some(driver, number)
        return time.monotonic() - start

    seconds_for(PORTION)
    before = min(seconds_for(PORTION) for _ in range(3))
    push_all(driver, amount, due=At(time.time() + 3_600))

    assert min(seconds_for(PORTION) for _ in range(3)) < 2 * before + 0.1


@pytest.mark.parametrize("in_a_millisecond", [20, 300])
def test_the_memory_of_ended_jobs_stays_small(driver, client, in_a_millisecond):
    def used():
        return sum(client.memory_usage(key, samples=0) for key in client.scan_iter(match=f"{driver._keys.head}ended:*"))

    ids = [
        f"01a22be0-{n // in_a_millisecond:04x}-7{n % in_a_millisecond:03x}-8{n:03x}-{n * 65537:012x}"
        for n in range(4_000)
    ]
    for start in range(0, len(ids), PORTION):
        driver.push([Push(Envelope(id_, "shop.mail", "default", "x")) for id_ in ids[start : start + PORTION]])
    drain(driver)

    assert not any(answer.stored for answer in driver.push([Push(Envelope(id_, "a", "default", "x")) for id_ in ids]))
    assert used() / len(ids) < 36
