"""The store in this process's memory: the promises in their plainest form."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from .. import clock
from ..envelope import Reservation
from ..store import Granted, Held, Holder, Place, Store, Taken, Tally, Turn, stored_key
from ..turns import Line, Quota, earliest, is_now, reopens, turn_begins
from ..validation import seconds as length

_OFTEN = 100


def _no_lease(reservation: Reservation) -> float | None:
    return None


class MemoryStore(Store):
    """Keeps locks, limits and counts in this process's memory: it guards this process and no other.

    `lease_of` tells when the lease of a live delivery ends, or None; whoever gives it may give its `lock` as well.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float] = clock.now,
        lease_of: Callable[[Reservation], float | None] = _no_lease,
        lock: AbstractContextManager[object] | None = None,
    ) -> None:
        self._now = now
        self._lease_of = lease_of
        self._lock = threading.RLock() if lock is None else lock
        self._held: dict[str, list[_Hold]] = {}
        self._shelves: dict[str, _Shelf] = {}
        self._booked: dict[str, dict[str, tuple[Place, ...]]] = {}
        self._counts: dict[str, tuple[int, float]] = {}
        self._until_sweep = _OFTEN

    def acquire(self, key: str, holder: Holder, *, places: int = 1, seconds: float) -> Held | Taken:
        """Take one of the key's places, or say who holds the one that ends first."""
        key, until = stored_key(key), self._now() + length(seconds, what="seconds")
        with self._lock:
            self._sweep()
            live = self._live(key)
            if any(hold.holder.id == holder.id for hold in live):
                return Held()
            if len(live) >= places:
                first = min(live, key=self._end)
                return Taken(first.holder.job_id, self._end(first))
            self._held[key] = [*live, _Hold(holder, until)]
            return Held()

    def extend(self, key: str, holder: Holder, *, seconds: float) -> bool:
        """Hold it for `seconds` from now; false if it is the holder's no longer."""
        with self._lock:
            for hold in self._live(stored_key(key)):
                if hold.holder.id == holder.id:
                    hold.until = self._now() + length(seconds, what="seconds")
                    return True
            return False

    def release(self, key: str, holder: Holder) -> bool:
        """Let go of the holder's own place, and of no other."""
        key = stored_key(key)
        with self._lock:
            live = self._live(key)
            kept = [hold for hold in live if hold.holder.id != holder.id]
            self._held[key] = kept
            if not kept:
                del self._held[key]
            return len(kept) < len(live)

    def book(self, quotas: Sequence[Quota], *, owner: str, name: str, ahead: bool = True) -> Granted | Turn:
        """Ask all quotas together for one start, and charge them only if all allow it."""
        with self._lock:
            self._sweep()
            now = self._now()
            own = self._booked.get(owner, {}).pop(name, ())
            if [place.quota.key for place in own] == [quota.key for quota in quotas]:
                numbers = [place.number for place in own]
                if is_now(quotas, numbers, now):
                    return Granted(own)
                if now < (begin := turn_begins(quotas, numbers)):
                    self._booked[owner][name] = own
                    return Turn(begin, begin - now, _place_of(begin, quotas, numbers))
            self._put_back(own)
            return self._book_anew(quotas, now, owner=owner, name=name, ahead=ahead)

    def give_back(self, owner: str | None, places: Sequence[Place] = ()) -> bool:
        """Let others have what the owner has booked, and these places that it did not use."""
        with self._lock:
            booked = {} if owner is None else self._booked.pop(owner, {})
            self._put_back(places)
            for own in booked.values():
                self._put_back(own)
            return bool(booked)

    def tally(self, key: str, add: int = 1, *, seconds: float) -> Tally:
        """Add to a count, and give what it is now."""
        key = stored_key(key)
        with self._lock:
            self._sweep()
            now = self._now()
            count, ends = self._counts.get(key, (0, now))
            if ends <= now:
                count, ends = 0, now + length(seconds, what="seconds")
            if not add:
                return Tally(count, ends, ends - now) if count else Tally(0, now, 0.0)
            self._counts[key] = (count + add, ends)
            return Tally(count + add, ends, ends - now)

    def clear(self, key: str) -> bool:
        """End the count; says whether there was one."""
        with self._lock:
            _, ends = self._counts.pop(stored_key(key), (0, 0.0))
            return ends > self._now()

    def _live(self, key: str) -> list[_Hold]:
        now = self._now()
        return [hold for hold in self._held.get(key, ()) if self._end(hold) > now]

    def _end(self, hold: _Hold) -> float:
        if hold.holder.delivery is None:
            return hold.until
        return self._lease_of(hold.holder.delivery) or 0.0

    def _book_anew(self, quotas: Sequence[Quota], now: float, *, owner: str, name: str, ahead: bool) -> Granted | Turn:
        lines = [self._shelf(quota).line(quota, now) for quota in quotas]
        found = earliest(now, lines)
        if found.blocker is None or ahead:
            places = tuple(Place(line.quota, line.take(found.at)) for line in lines)
            for place in places:
                taken = self._shelves[place.quota.key].taken
                taken[place.number] = taken.get(place.number, 0) + 1
        for line in lines:
            self._shelves[line.quota.key].keep(line)
        if found.blocker is None:
            return Granted(places)
        if ahead:
            self._booked.setdefault(owner, {})[name] = places
        return Turn(found.at, found.at - now, found.blocker)

    def _shelf(self, quota: Quota) -> _Shelf:
        return self._shelves.setdefault(quota.key, _Shelf())

    def _put_back(self, places: Sequence[Place]) -> None:
        for quota, number in ((place.quota, place.number) for place in places):
            shelf = self._shelves.get(quota.key)
            if shelf is not None and shelf.taken.get(number):
                shelf.put_back(quota, number)

    def _sweep(self) -> None:
        """Drop what is over, seldom enough that it costs each call next to nothing."""
        self._until_sweep -= 1
        if self._until_sweep > 0:
            return
        now = self._now()
        self._held = {key: live for key in self._held if (live := self._live(key))}
        self._counts = {key: (count, ends) for key, (count, ends) in self._counts.items() if ends > now}
        self._shelves = {key: shelf for key, shelf in self._shelves.items() if shelf.sweep(now)}
        self._booked = {
            owner: kept
            for owner, booked in self._booked.items()
            if (kept := {name: own for name, own in booked.items() if _is_ahead(own, now)})
        }
        slices = sum(len(shelf.taken) for shelf in self._shelves.values())
        self._until_sweep = _OFTEN + len(self._held) + len(self._counts) + len(self._booked) + slices


@dataclass(slots=True)
class _Hold:
    """A place of a lock."""

    holder: Holder
    until: float


@dataclass(slots=True)
class _Shelf:
    """What is taken of a quota."""

    quota: Quota | None = None
    frontier: int | None = None
    last: int | None = None
    taken: dict[int, int] = field(default_factory=dict)

    def line(self, quota: Quota, now: float) -> Line:
        # Where there is room depends on the amount, which the application may change at any time.
        frontier = self.frontier if self.quota == quota else None
        return Line(quota, now, self._read, frontier=frontier, last=self.last)

    def keep(self, line: Line) -> None:
        self.quota, self.frontier, self.last = line.quota, line.frontier, line.last

    def put_back(self, quota: Quota, number: int) -> None:
        self.taken[number] -= 1
        if self.frontier is not None:
            self.frontier = min(self.frontier, reopens(quota, number))

    def sweep(self, now: float) -> bool:
        """Drop the slices that no longer matter; says whether any is left."""
        if self.quota is None:
            return False
        quota = self.quota
        self.taken = {number: taken for number, taken in self.taken.items() if taken and quota.end(number) > now}
        return bool(self.taken)

    def _read(self, first: int, last: int) -> Mapping[int, int]:
        return {number: self.taken[number] for number in range(first, last + 1) if number in self.taken}


def _place_of(begin: float, quotas: Sequence[Quota], numbers: Sequence[int]) -> int:
    return next(place for place, quota in enumerate(quotas) if quota.begin(numbers[place]) == begin)


def _is_ahead(places: Sequence[Place], now: float) -> bool:
    return all(place.quota.end(place.number) > now for place in places)
