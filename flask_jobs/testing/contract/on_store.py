"""What the contracts of a store share: their fixtures, and somebody to hold and to ask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

import pytest

from ... import clock, ids
from ...driver import KeepsLocks
from ...envelope import Room
from ...store import Granted, Holder, Store, Turn
from ...turns import Quota
from .support import Advance, pop_one

T = TypeVar("T")

THREADS = 8

_ONE = Room(limit=1)


class OnStore:
    """Overridden by the store's own tests: three fixtures, and traits where the defaults do not fit."""

    hold: ClassVar[float] = 10.0
    """Seconds that a lock is held for."""

    window: ClassVar[float] = 10.0
    """Seconds of a limit's window. Small where `advance` has to sleep, but long enough for a handful of calls."""

    @pytest.fixture
    def store(self) -> Store:
        """An empty store."""
        raise NotImplementedError(f"{type(self).__name__} must override the fixture `store`.")

    @pytest.fixture
    def other(self) -> Store:
        """The same store, as another process sees it. May be the same object if the store is in memory."""
        raise NotImplementedError(f"{type(self).__name__} must override the fixture `other`.")

    @pytest.fixture
    def advance(self) -> Advance:
        """A function that lets so many seconds pass by the store's clock: moves a test clock, or sleeps."""
        raise NotImplementedError(f"{type(self).__name__} must override the fixture `advance`.")

    def limit(self, amount: int, *, key: str = "emails", length: float | None = None, span: int = 1) -> Quota:
        """A limit of so many starts in a window."""
        return Quota(key, amount, self.window if length is None else length, span)

    def wait_for_a_window(self, advance: Advance, *, length: float | None = None) -> float:
        """Let time pass until the next window begins, and give its beginning."""
        length = self.window if length is None else length
        begin = (clock.now() // length + 1) * length
        # Beyond what a store's clock may be behind this one.
        advance(begin - clock.now() + 0.02)
        return begin


OWNER = ids.new_id()


def holder() -> Holder:
    """Somebody whose hold has an end of its own."""
    return Holder(ids.new_id(), ids.new_id())


def delivery(driver: KeepsLocks, *, token: str | None = None) -> Holder:
    """A delivery of the next job, as the holder of locks."""
    reservation = pop_one(driver) if token is None else driver.pop(["default"], token, _ONE).reservations[0]
    return Holder(reservation.envelope.id, reservation.receipt, reservation)


def book(
    store: Store, *limits: Quota, owner: str | None = None, name: str = "emails", ahead: bool = True
) -> Granted | Turn:
    """Ask for a start of a job, of a new one if none is named."""
    return store.book(limits, owner=owner or ids.new_id(), name=name, ahead=ahead)


def at_once(store: Store, other: Store, call: Callable[[Store], T]) -> Sequence[T]:
    """What the call gives to each of several threads that make it at the same time."""
    stores = [store, other] * (THREADS // 2)
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(call, stores))
