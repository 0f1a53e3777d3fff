"""What the test classes of the contract stand on: fixtures to override, traits to set, and short words for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar

import pytest

from ... import clock, ids
from ...driver import Driver
from ...envelope import (
    Ack,
    Counters,
    Entry,
    Envelope,
    ErrorRecord,
    Event,
    Fail,
    Popped,
    Release,
    Reservation,
    Room,
    Settlement,
    Ties,
    When,
)
from ...pushes import Push

Advance = Callable[[float], None]

ERROR = ErrorRecord("ValueError", "no such customer", "Traceback …", ("KeyError: 7",))

BAD_NAMES = ("", " ", "a b", "a:b", "a,b", "*", "{x}", "default ", "default\n", "名前", "u\u0308nï", "x" * 81)
"""Queue names that every driver refuses."""


class Contract:
    """Overridden by the driver's own tests: three fixtures, and traits where the defaults do not fit."""

    lease: ClassVar[float] = 60.0
    """The `retry_after` of the drivers under test. Keep it small where `advance` has to sleep."""

    delay: ClassVar[float] = 10.0
    """Seconds that stand for a delay."""

    remember_ids: ClassVar[float] = 120.0
    """The `remember_ids` of the drivers under test."""

    @pytest.fixture
    def driver(self) -> Driver:
        """A driver on an empty store, with the lease and memory of the traits."""
        raise NotImplementedError(f"{type(self).__name__} must override the fixture `driver`.")

    @pytest.fixture
    def second(self) -> Driver:
        """Another driver on the same store: another worker. May be the same object if the store is in memory."""
        raise NotImplementedError(f"{type(self).__name__} must override the fixture `second`.")

    @pytest.fixture
    def advance(self) -> Advance:
        """A function that lets so many seconds pass by the store's clock: moves a test clock, or sleeps."""
        return time.sleep


def envelope(
    *, queue: str = "default", name: str = "shop.send-invoice", id_: str | None = None, ties: Ties | None = None
) -> Envelope:
    """A job as a dispatcher would make it."""
    new_id = id_ or ids.new_id()
    body = f'{{"v":1,"job":"{name}","jv":1,"fields":{{}},"meta":{{}}}}.{new_id[-4:]}'
    return Envelope(new_id, name, queue, body, ties=ties)


def push(
    driver: Driver,
    amount: int = 1,
    *,
    queue: str = "default",
    name: str = "shop.send-invoice",
    due: When | None = None,
    front: bool = False,
) -> list[str]:
    """Push so many jobs at once, and return their ids."""
    envelopes = [envelope(queue=queue, name=name) for _ in range(amount)]
    pushes = [Push(item, front=front) if due is None else Push(item, due=due, front=front) for item in envelopes]
    return [pushed.id for pushed in driver.push(pushes) if pushed.stored]


def pop(driver: Driver, *queues: str, room: Room | None = None, token: str | None = None) -> Popped:
    """Pop with a token of its own."""
    return driver.pop(queues or ("default",), token or ids.new_id(), room or Room(limit=1))


def pop_one(driver: Driver, *queues: str) -> Reservation:
    """The one job that is due."""
    (reservation,) = pop(driver, *queues).reservations
    return reservation


def pop_ids(driver: Driver, *queues: str, amount: int) -> list[str]:
    """The ids of so many jobs, popped one by one."""
    return [id_ for _ in range(amount) for id_ in id_list(pop(driver, *queues).reservations)]


def roomy(limit: int = 50, *, names: Iterable[str] = ("shop.send-invoice",)) -> Room:
    """Room for many quick jobs of these names."""
    return Room(limit=limit, box=1.0, means=dict.fromkeys(names, 0.0001))


def id_list(reservations: Iterable[Reservation]) -> list[str]:
    """The ids of the jobs."""
    return [reservation.envelope.id for reservation in reservations]


def timeless(reservations: Iterable[Reservation]) -> list[Reservation]:
    """The reservations without the present of the call that gave them, so that two such calls can be compared."""
    return [replace(reservation, now=0.0) for reservation in reservations]


def release(reservation: Reservation, due: When, *, counters: Counters | None = None) -> Release:
    """Put the delivery back, with an entry in its history."""
    entry = Entry(Event.RELEASED, reservation.now, reservation.attempt, "the customer is busy")
    return Release(reservation, due, counters or reservation.counters, entry)


def fail(reservation: Reservation, error: ErrorRecord = ERROR) -> Fail:
    """Fail the delivery for good."""
    entry = Entry(Event.ERROR, reservation.now, reservation.attempt, "ValueError: no such customer")
    return Fail(reservation, error, reservation.counters, entry)


def settle(kind: str, reservation: Reservation, *, due: When) -> Settlement:
    """A settlement of the named kind."""
    match kind:
        case "ack":
            return Ack(reservation)
        case "release":
            return release(reservation, due)
        case "fail":
            return fail(reservation)
        case _:
            raise AssertionError(f"no settlement is called {kind!r}")


KINDS = ("ack", "release", "fail")


def until(condition: Callable[[], bool], *, within: float = 10.0) -> None:
    """Wait for the condition, and fail if it does not come true."""
    deadline = clock.monotonic() + within
    while not condition():
        assert clock.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.001)
