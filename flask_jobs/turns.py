"""When limits have room: the reckoning behind `Store.book`, the same for every store. No I/O but what it is given.

Time is cut into slices, numbered from the epoch. A quota says how many may start within so many slices that follow
each other: a fixed window is one long slice, a rolling one eleven short ones. A turn is a slice of each quota, taken
when it is booked, so that a count of what is taken is all there is to know.

That no quota is exceeded hangs on these counts alone. The `frontier` and the `last` slice that a store keeps beside
them only say where to look, so that a search is short however many turns are booked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

SEEN_AT_ONCE = 100
"""How many slices of a quota one search looks at; after them it goes behind all that is taken."""

HOPS = 50
"""How often a search that several quotas take part in moves on before it goes behind all that is taken."""

Read = Callable[[int, int], Mapping[int, int]]
"""Gives how many have been taken of each slice from the first to the last of two; those of which none are may lack."""


@dataclass(frozen=True, slots=True)
class Quota:
    """At most `amount` starts within any `span` slices that follow each other, each `length` seconds long."""

    key: str
    amount: int
    length: float
    span: int = 1

    def slice_at(self, instant: float) -> int:
        """The number of the slice that the instant lies in."""
        number = math.floor(instant / self.length)
        # The quotient may have been rounded over the edge.
        if self.begin(number + 1) <= instant:
            return number + 1
        return number - 1 if self.begin(number) > instant else number

    def begin(self, number: int) -> float:
        """When the slice begins, in epoch seconds."""
        return number * self.length

    def end(self, number: int) -> float:
        """When it no longer matters what was taken of the slice."""
        return (number + self.span) * self.length


class Line:
    """What is taken of one quota, as far as it has been read.

    No slice from the present one to before the `frontier` has room, and nothing is taken of any after `last`.
    """

    def __init__(self, quota: Quota, now: float, read: Read, *, frontier: int | None = None, last: int | None = None):
        present = quota.slice_at(now)
        self.quota = quota
        self.frontier = present if frontier is None else max(present, frontier)
        self.last = present - quota.span if last is None else last
        self._read = read
        self._seen: range = range(0)
        self._taken: Mapping[int, int] = {}

    def next_room(self, instant: float) -> float:
        """The first instant from this one on at which the quota has room, as far as a short search can tell."""
        wanted = self.quota.slice_at(instant)
        first = max(wanted, self.frontier)
        is_whole = first == self.frontier
        for number in range(first, first + SEEN_AT_ONCE):
            if self._has_room(number):
                if is_whole:
                    self.frontier = number
                return instant if number == wanted else self.quota.begin(number)
        if is_whole:
            self.frontier = first + SEEN_AT_ONCE
        return self.quota.begin(self.behind_all(wanted))

    def behind_all(self, number: int) -> int:
        """A slice not before this one that surely has room, for nothing is taken anywhere near."""
        return max(number, self.last + self.quota.span)

    def take(self, instant: float) -> int:
        """Note that the slice of this instant is taken once more, and give its number."""
        number = self.quota.slice_at(instant)
        self.last = max(self.last, number)
        return number

    def _has_room(self, number: int) -> bool:
        span = self.quota.span
        first, last = number - span + 1, number + span - 1
        if first not in self._seen or last not in self._seen:
            self._look(first, last)
        taken = [self._taken.get(place, 0) for place in range(first, last + 1)]
        return all(sum(taken[at : at + span]) < self.quota.amount for at in range(span))

    def _look(self, first: int, last: int) -> None:
        self._seen = range(first, last + SEEN_AT_ONCE)
        self._taken = self._read(self._seen[0], self._seen[-1])


@dataclass(frozen=True, slots=True)
class Found:
    """The instant that a search came to. `blocker` is the place of the quota that made it wait, None if none did."""

    at: float
    blocker: int | None


def reopens(quota: Quota, number: int) -> int:
    """The first slice that may have room again when this one is given back."""
    return number - quota.span + 1


def earliest(now: float, lines: Sequence[Line]) -> Found:
    """The earliest instant at which all quotas have room, the present if they have it now."""
    at, blocker = now, None
    for _ in range(HOPS):
        before = at
        for place, line in enumerate(lines):
            room = line.next_room(at)
            if room > at:
                at, blocker = room, place
        if at == before:
            return Found(at, blocker)
    for place, line in enumerate(lines):
        room = line.quota.begin(line.behind_all(line.quota.slice_at(at)))
        if room > at:
            at, blocker = room, place
    return Found(at, blocker)


def is_now(quotas: Sequence[Quota], slices: Sequence[int], now: float) -> bool:
    """Whether a turn of these slices is the present."""
    return all(quota.slice_at(now) == number for quota, number in zip(quotas, slices, strict=True))


def turn_begins(quotas: Sequence[Quota], slices: Sequence[int]) -> float:
    """When a turn of these slices begins."""
    return max(quota.begin(number) for quota, number in zip(quotas, slices, strict=True))
