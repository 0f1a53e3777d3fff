"""Reckoning turns: whatever happens in whatever order, nobody exceeds a limit, and every store reckons alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flask_jobs import clock
from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.drivers.redis.driver import RedisDriver
from flask_jobs.store import Granted, Turn
from flask_jobs.stores import MemoryStore
from flask_jobs.turns import SEEN_AT_ONCE, Line, Quota, earliest

from ..servers import own_prefix, required_redis

EPOCH = 1_700_000_000.0
OWNERS = "abcdefgh"

quotas = st.lists(
    st.builds(
        Quota,
        key=st.sampled_from("xyz"),
        amount=st.integers(1, 3),
        length=st.sampled_from([0.1, 0.3, 1.0, 7.0]),
        span=st.sampled_from([1, 1, 2, 4]),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda quota: quota.key,
)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("book"), st.sampled_from(OWNERS)),
        st.tuples(st.just("book some"), st.sampled_from(OWNERS)),
        st.tuples(st.just("look"), st.sampled_from(OWNERS)),
        st.tuples(st.just("come in time"), st.sampled_from(OWNERS)),
        st.tuples(st.just("give back"), st.sampled_from(OWNERS)),
        st.tuples(st.just("unused"), st.sampled_from(OWNERS)),
        st.tuples(st.just("wait"), st.sampled_from([0.05, 0.1, 0.3, 1.0, 3.5])),
    ),
    max_size=40,
)


class Scene:
    """Stores that are asked the same, and one clock for all."""

    def __init__(self, stores, limits, run=0):
        self.stores = stores
        self.limits = limits
        self.now = EPOCH
        self.run = run
        self.starts = []
        self.turns = {}
        self.granted = {}

    def ask(self, call):
        with mock.patch.object(clock, "now", return_value=self.now):
            answers = [call(store) for store in self.stores]
        assert all(answer == answers[0] for answer in answers), answers
        return answers[0]

    def book(self, owner, *, ahead=True, some=False):
        limits = self.limits[:1] if some else self.limits
        name = "some" if some else "all"
        keyed = [Quota(f"{self.run}{quota.key}", quota.amount, quota.length, quota.span) for quota in limits]
        answer = self.ask(lambda store: store.book(keyed, owner=f"{self.run}{owner}", name=name, ahead=ahead))
        if isinstance(answer, Granted):
            self.starts.append((self.now, limits))
            self.granted[owner] = answer.places
            self.turns.pop((owner, name), None)
        elif ahead:
            self.turns[owner, name] = answer
        return answer

    def give_back(self, store, owner):
        """What it answers is not compared: what is over may be forgotten already, for each sweeps when it suits it."""
        store.give_back(f"{self.run}{owner}")

    def take(self, step):
        match step:
            case ("book", owner):
                self.book(owner)
            case ("book some", owner):
                self.book(owner, some=True)
            case ("look", owner):
                if (owner, "all") not in self.turns:
                    self.book(owner, ahead=False)
            case ("come in time", owner):
                turn = self.turns.get((owner, "all"))
                if turn is not None and turn.at >= self.now:
                    self.now = turn.at + 1e-4
                    assert isinstance(self.book(owner), Granted)
            case ("give back", owner):
                self.ask(lambda store: self.give_back(store, owner))
                self.turns = {key: turn for key, turn in self.turns.items() if key[0] != owner}
            case ("unused", owner):
                places = self.granted.pop(owner, None)
                if places is not None:
                    self.ask(lambda store: store.give_back("nobody", places))
                    number = next(
                        at
                        for at, (start, limits) in reversed(list(enumerate(self.starts)))
                        if len(limits) == len(places)
                        and all(place.quota.slice_at(start) == place.number for place in places)
                    )
                    del self.starts[number]
            case ("wait", seconds):
                self.now += seconds

    def check(self):
        """No slices that follow each other had more starts than the limit of their quota."""
        for place, quota in enumerate(self.limits):
            counts = Counter(quota.slice_at(start) for start, limits in self.starts if place < len(limits))
            for first in counts:
                assert sum(counts[first + at] for at in range(quota.span)) <= quota.amount


@given(limits=quotas, taken=steps)
@settings(max_examples=150, deadline=None)
def test_no_limit_is_exceeded_and_every_turn_is_kept(limits, taken):
    scene = Scene([MemoryStore(now=lambda: clock.now())], limits)

    for step in taken:
        scene.take(step)

    scene.check()


@pytest.fixture(scope="module")
def runs():
    return iter(range(1_000_000))


@pytest.fixture(scope="module")
def redis_store():
    url = required_redis()
    with own_prefix(url) as prefix:
        driver = RedisDriver(url, prefix=prefix, connection="redis", clock="local")
        yield driver.store
        driver.close()


@pytest.fixture(scope="module")
def sqlite_store(tmp_path_factory):
    engine = open_engine(f"sqlite:///{tmp_path_factory.mktemp('turns') / 'jobs.sqlite'}")
    driver = DatabaseDriver(engine, clock="local")
    driver.prepare()
    yield driver.store
    driver.close()


@given(limits=quotas, taken=steps)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_redis_reckons_as_the_memory_does(redis_store, runs, limits, taken):
    scene = Scene([MemoryStore(now=lambda: clock.now()), redis_store], limits, next(runs))

    for step in taken:
        scene.take(step)

    scene.check()


@given(limits=quotas, taken=steps)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sql_reckons_as_the_memory_does(sqlite_store, runs, limits, taken):
    scene = Scene([MemoryStore(now=lambda: clock.now()), sqlite_store], limits, next(runs))

    for step in taken:
        scene.take(step)

    scene.check()


@given(
    amount=st.integers(1, 3),
    span=st.integers(1, 5),
    length=st.sampled_from([0.1, 0.3, 1.0]),
    taken=st.lists(st.integers(0, 30), max_size=60),
    offset=st.floats(0, 0.999),
)
@settings(max_examples=150, deadline=None)
def test_a_search_finds_the_first_room_there_is(amount, span, length, taken, offset):
    quota = Quota("k", amount, length, span)
    first = quota.slice_at(EPOCH)
    now = quota.begin(first) + offset * length
    counts = defaultdict(int)
    for number in taken:
        counts[first + number] += 1

    found = earliest(
        now, [Line(quota, now, lambda low, high: {n: counts[n] for n in range(low, high + 1)}, last=first + 30)]
    )

    def has_room(number):
        return all(
            sum(counts[start + at] for at in range(span)) < amount for start in range(number - span + 1, number + 1)
        )

    present = quota.slice_at(now)
    wanted = next(number for number in range(present, present + 60) if has_room(number))
    assert found.at == (now if wanted == present else quota.begin(wanted))


@given(st.floats(0, 1e10), st.sampled_from([0.01, 0.1, 0.3, 1.0, 6.0, 8_640.0, 86_400.0]))
def test_an_instant_lies_in_its_slice(instant, length):
    quota = Quota("k", 1, length)

    number = quota.slice_at(instant)

    assert quota.begin(number) <= instant < quota.begin(number + 1)
    assert quota.slice_at(quota.begin(number)) == number


def test_a_search_is_short_however_many_turns_are_booked():
    store, now = MemoryStore(now=lambda: EPOCH), EPOCH
    quota = Quota("k", 1, 1.0)
    read = []

    turns = [store.book([quota], owner=str(number), name="n") for number in range(2_000)]
    line = Line(
        quota,
        now,
        lambda low, high: (read.append(high - low), dict.fromkeys(range(low, high + 1), 1))[1],
        last=quota.slice_at(EPOCH) + 2_000,
    )
    found = earliest(now, [line])

    assert [turn.at - EPOCH for turn in turns[1:] if isinstance(turn, Turn)] == list(range(1, 2_000))
    assert len(read) <= 3
    assert max(read) <= 2 * SEEN_AT_ONCE
    assert found.at == EPOCH + 2_001
