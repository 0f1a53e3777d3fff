"""How often something may start: `Limit`, as the functions of `Jobs.limiter` return it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace

from .errors import InvalidArgument
from .turns import Quota
from .validation import count
from .validation import seconds as as_seconds

SLICES = 10
"""Into how many slices a rolling window is cut. A turn lasts as long as one of them."""

SHORTEST = 0.01
"""Seconds of the shortest window."""

MOST = 2**31 - 1
"""The largest amount that every store can count."""

_UNITS = {1.0: "second", 60.0: "minute", 3_600.0: "hour", 86_400.0: "day"}


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `amount` starts within `seconds`.

    The windows are fixed, one after the other from the epoch on, so that a day is one of UTC; `rolling()` makes it
    hold in every span of time.
    """

    amount: int
    seconds: float
    key: str = ""
    is_rolling: bool = False

    def __post_init__(self) -> None:
        if count(self.amount, what="A limit's amount") == 0:
            raise InvalidArgument("A limit's amount must be 1 or more; a job that may never start is not dispatched.")
        if self.amount > MOST:
            raise InvalidArgument(f"A limit's amount must be {MOST} or less, not {self.amount}.")
        if as_seconds(self.seconds, what="A limit's window") < SHORTEST:
            raise InvalidArgument(f"A limit's window must be {SHORTEST:g} seconds or longer, not {self.seconds!r}.")

    @classmethod
    def per_second(cls, amount: int, *, seconds: int = 1) -> Limit:
        """So many in each second, or in so many seconds."""
        return cls(amount, float(seconds))

    @classmethod
    def per_minute(cls, amount: int, *, minutes: int = 1) -> Limit:
        """So many in each minute, or in so many minutes."""
        return cls(amount, 60.0 * minutes)

    @classmethod
    def per_hour(cls, amount: int, *, hours: int = 1) -> Limit:
        """So many in each hour, or in so many hours."""
        return cls(amount, 3_600.0 * hours)

    @classmethod
    def per_day(cls, amount: int, *, days: int = 1) -> Limit:
        """So many in each day, or in so many days."""
        return cls(amount, 86_400.0 * days)

    @classmethod
    def every(cls, window: float | dt.timedelta, amount: int = 1) -> Limit:
        """One (or so many) in each window of seconds, or of a timedelta."""
        return cls(amount, as_seconds(window, what="window"))

    def by(self, *values: object) -> Limit:
        """A limit of its own for each of these values, such as the customer's number."""
        return replace(self, key="|".join(str(value).replace("\\", "\\\\").replace("|", "\\|") for value in values))

    def rolling(self) -> Limit:
        """The same in every span of time, not only in windows that follow each other."""
        return replace(self, is_rolling=True)

    def quota(self, limiter: str) -> Quota:
        """What a store counts for it."""
        kind = "rolling" if self.is_rolling else "fixed"
        key = f"{limiter}/{kind}/{self.seconds!r}/{self.key}"
        if self.is_rolling:
            return Quota(key, self.amount, self.seconds / SLICES, SLICES + 1)
        return Quota(key, self.amount, self.seconds)

    def __str__(self) -> str:
        """The limit in words."""
        unit = _UNITS.get(self.seconds)
        words = f"{self.amount} per {unit}" if unit else f"{self.amount} in {self.seconds:g} s"
        return f"{words} for {self.key}" if self.key else words
