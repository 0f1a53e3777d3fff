"""What the threads of one process want at the same time goes in one exchange, and each has what is his."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from flask_jobs import clock
from flask_jobs.control import current_job
from flask_jobs.envelope import Ack, Exchange, Popped, Reservation, Room, Settlement
from flask_jobs.errors import StoreRefused
from flask_jobs.slate import Slate
from flask_jobs.slate.layout import HEADER, LANE
from flask_jobs.stored import Sizes
from flask_jobs.worker import Carrier, Post, Stop
from flask_jobs.worker.carrier import Brought, Wish

from ..support.bench import Bench, Store, lost

QUEUES = ("default",)


class Gate(Store):
    """Holds up each call for jobs until it is let through, and keeps how much room there was in each."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.rooms: list[Room] = []
        self.settled: list[Sequence[Settlement]] = []

    def pop(self, queues: Sequence[str], token: str, room: Room) -> Popped:
        self._stand(room)
        return super().pop(queues, token, room)

    def exchange(self, settlements: Sequence[Settlement], queues: Sequence[str], token: str, room: Room) -> Exchange:
        self._stand(room)
        self.settled.append(settlements)
        return super().exchange(settlements, queues, token, room)

    def _stand(self, room: Room) -> None:
        self.rooms.append(room)
        self.came.release()
        assert self.go.acquire(timeout=30)


class Traveller(threading.Thread):
    """Makes a wish, in a thread of its own, and keeps what came of it."""

    def __init__(self, carrier: Carrier, *settlements: Settlement, most: int = 1, alone: bool = False) -> None:
        super().__init__(daemon=True)
        self._carrier = carrier
        self.tokens: list[str] = []
        self.wish = Wish(settlements, most, self.tokens.append, alone=alone)
        self.brought: Brought | None = None
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self.brought = self._carrier.exchange(self.wish)
        except Exception as error:
            self.error = error

    @property
    def ids(self) -> list[str]:
        assert self.brought is not None
        return [reservation.envelope.id for reservation in self.brought.popped.reservations]


def eventually(condition: Callable[[], bool]) -> None:
    ends = clock.monotonic() + 10
    while not condition():
        assert clock.monotonic() < ends, "It never came true."
        time.sleep(0.005)


@pytest.fixture
def store() -> Gate:
    return Gate()


@pytest.fixture
def carrier(store: Gate) -> Carrier:
    made = Carrier(store, QUEUES)
    made.means.note("demo", 10.0)
    return made


def gathered(carrier: Carrier, store: Gate, *given: Sequence[Settlement]) -> list[Traveller]:
    """One under way, who finds nothing, and behind it some who wait, in this order, each with these settlements."""
    travellers = [Traveller(carrier)]
    assert store.came.acquire(timeout=10)
    for settlements in given:
        travellers.append(Traveller(carrier, *settlements))
        eventually(lambda: bool(travellers[-1].tokens))
    return travellers


def ended(travellers: Sequence[Traveller], store: Gate, trips: int) -> None:
    store.go.release(trips)
    for traveller in travellers:
        traveller.join(10)
        assert not traveller.is_alive()


def taken(store: Gate, name: str = "demo") -> Reservation:
    store.add(name)
    (reservation,) = Store.pop(store, QUEUES, f"t{name}", Room()).reservations
    return reservation


def test_what_is_wanted_while_one_is_under_way_goes_in_one_exchange(store: Gate, carrier: Carrier) -> None:
    first, *others = gathered(carrier, store, [], [], [])
    ended([first], store, 1)
    ids = [store.add("demo") for _ in range(5)]
    ended(others, store, 1)

    assert sorted(job_id for one in others for job_id in one.ids) == ids[:3]
    assert [len(one.ids) for one in others] == [1, 1, 1]
    assert [len(one.brought.others) for one in others if one.brought] == [2, 2, 2]
    assert len({one.wish.token for one in others}) == 1
    assert [one.tokens for one in (first, *others)] == [[one.wish.token] for one in (first, *others)]
    assert [room.limit for room in store.rooms] == [1, 3]


def test_one_who_is_alone_waits_for_nobody(store: Gate, carrier: Carrier) -> None:
    job_id = store.add("demo")

    one = Traveller(carrier)
    ended([one], store, 1)

    assert one.ids == [job_id]
    assert store.calls == ["pop"]


def test_each_hears_of_his_own_settlements_that_came_too_late(store: Gate, carrier: Carrier) -> None:
    mine, late = taken(store), taken(store, "late")
    store.settle([Ack(late)])
    again = taken(store, "again")
    store.recover("tagain")
    first, *others = gathered(carrier, store, [Ack(mine)], [Ack(again)])

    ended([first, *others], store, 2)

    assert [one.brought.settled.stale for one in others if one.brought] == [(), (Ack(again),)]
    assert store.settled == [[Ack(mine), Ack(again)]]


@pytest.mark.parametrize(
    "error", [lost(), StoreRefused("no"), RuntimeError("a bug")], ids=lambda error: type(error).__name__
)
def test_what_goes_wrong_goes_wrong_for_all_who_took_part(store: Gate, carrier: Carrier, error: Exception) -> None:
    first, *others = gathered(carrier, store, [], [])
    ended([first], store, 1)
    store.before["pop"] = [error]

    ended(others, store, 1)
    after = Traveller(carrier)
    ended([after], store, 1)

    assert [one.error for one in others] == [error, error]
    assert first.brought is not None
    assert after.brought is not None


def test_one_who_goes_alone_goes_at_once_beside_the_others(store: Gate, carrier: Carrier) -> None:
    gathered(carrier, store, [])

    alone = Traveller(carrier, alone=True)

    assert store.came.acquire(timeout=10)
    assert [room.limit for room in store.rooms] == [1, 1]
    ended([alone], store, 3)


def test_who_gets_nothing_because_others_got_it_all_knows_that_there_may_be_more(store: Gate, carrier: Carrier) -> None:
    first, *others = gathered(carrier, store, [], [], [])
    ended([first], store, 1)
    store.add("of a name that nobody knows")
    store.add("demo")

    ended(others, store, 1)

    assert sorted(len(one.ids) for one in others) == [0, 0, 1]
    assert sorted(one.brought.was_passed_by for one in others if one.brought) == [False, True, True]
    assert first.brought is not None
    assert not first.brought.was_passed_by


def test_short_jobs_are_dealt_out_evenly_and_none_is_put_behind_a_long_one(store: Gate, carrier: Carrier) -> None:
    carrier.means.note("short", 0.004)
    first, *others = gathered(carrier, store, [], [])
    for one in others:
        one.wish.most = 50
    ended([first], store, 1)
    ids = [store.add("demo"), *(store.add("short") for _ in range(9))]

    ended(others, store, 1)

    assert sorted([one.ids for one in others], key=len) == [ids[:1], ids[1:6]]


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench() as made:
        yield made


@pytest.fixture
def held_up(bench: Bench) -> Gate:
    bench.store = Gate()
    return bench.store


def test_what_one_puts_back_is_not_what_the_same_pop_brought_another(bench: Bench, held_up: Gate) -> None:
    """Both jobs have the token of one pop. One runs; the other comes to a worker that was told to stop meanwhile."""
    ran: list[str] = []
    begun, may_end = threading.Event(), threading.Event()

    def wait(self: object) -> None:
        ran.append(current_job.id)
        begun.set()
        assert may_end.wait(30)

    bench.knows("demo", wait)
    carrier = Carrier(held_up, QUEUES)
    carrier.means.note("demo", 10.0)
    slate = Slate(bytearray(HEADER + 2 * LANE), 2)
    (first,) = gathered(carrier, held_up)
    workers = [bench.worker(post=Post(lane=slate.lane(number)), carrier=carrier, max_jobs=1) for number in range(2)]
    stops: list[Stop] = []
    threads = [threading.Thread(target=lambda one=worker: stops.append(one.run()), daemon=True) for worker in workers]
    for number, thread in enumerate(threads):
        thread.start()
        eventually(lambda number=number: slate.view(number).asking is not None)
    ended([first], held_up, 1)
    assert held_up.came.acquire(timeout=10)
    ids = [bench.store.add("demo") for _ in range(2)]

    workers[1].stop()
    held_up.go.release(9)
    threads[1].join(10)
    assert begun.wait(10)
    eventually(lambda: held_up.calls.count("recover") > 0)
    sizes = bench.store.size("default")
    may_end.set()
    threads[0].join(10)

    assert sizes == Sizes(ready=1, delayed=0, reserved=1)
    assert ran == ids[:1]
    assert bench.store.size("default") == Sizes(ready=1, delayed=0, reserved=0)
    assert bench.signals() == ["job-processing", "job-processed"]


def test_of_those_who_wait_for_work_one_watches_the_store(bench: Bench) -> None:
    carrier, ends = Carrier(bench.store, QUEUES), threading.Event()
    threads = [
        threading.Thread(target=carrier.wait, kwargs={"timeout": 60.0, "stopping": ends.is_set}, daemon=True)
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    eventually(lambda: bench.store.calls == ["wait"])

    bench.store.add("demo")
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()

    # Each after the other, for there is work left.
    assert bench.store.calls == ["wait"] * 3


def test_who_waits_behind_the_one_who_watches_ends_in_time_and_when_told(bench: Bench) -> None:
    carrier, ends = Carrier(bench.store, QUEUES), threading.Event()
    watching = threading.Thread(target=carrier.wait, kwargs={"timeout": 60.0, "stopping": ends.is_set}, daemon=True)
    watching.start()
    eventually(lambda: bench.store.calls == ["wait"])

    carrier.wait(timeout=0.05, stopping=lambda: False)
    carrier.wait(timeout=60.0, stopping=iter([False, True]).__next__)

    assert bench.store.calls == ["wait"]
    ends.set()
    watching.join(10)


@pytest.mark.parametrize(
    ("is_watched", "settings", "shares"),
    [(True, {}, True), (True, {"prefetch": 1}, False), (True, {"once": True}, False), (False, {}, False)],
    ids=["several at a time", "prefetch", "once", "nobody watches"],
)
def test_who_takes_jobs_one_by_one_takes_none_along_with_others(
    bench: Bench, is_watched: bool, settings: dict[str, object], shares: bool
) -> None:
    bench.knows("demo", lambda self: None)
    bench.store.add("demo")
    carrier = Carrier(bench.store, QUEUES)
    slate = Slate(bytearray(HEADER + LANE), 1)
    post = Post(lane=slate.lane(0)) if is_watched else Post()

    bench.worker(post=post, carrier=carrier, **settings).run()

    assert bench.signals() == ["job-processing", "job-processed"]
    assert ("demo" in carrier.means.room(50, workers=2).means) is shares
