"""The limiters of an application: names, and functions from a job to its limits."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from .errors import ConfigurationError, InvalidArgument
from .limits import Limit
from .validation import job_name, require_called

LimiterFunction = Callable[[Any], Limit | Sequence[Limit] | None]

L = TypeVar("L", bound=LimiterFunction)


class Limiters:
    """The registered limiters."""

    def __init__(self) -> None:
        super().__init__()
        self._limiters: dict[str, LimiterFunction] = {}

    def add_limiter(self, name: str, function: L) -> L:
        """Register the function. A name that is taken is an error, unless by the same function loaded anew."""
        require_called(name, "@jobs.limiter")
        job_name(name)
        known = self._limiters.get(name)
        if known is not None and known is not function and not _is_reload(known, function):
            raise ConfigurationError(f"The limiter {name!r} is registered already: choose another name.")
        self._limiters[name] = function
        return function

    def require_limiter(self, name: str) -> None:
        """Raise `ConfigurationError`, which says what to write, if there is no limiter of this name."""
        if name in self._limiters:
            return
        near = difflib.get_close_matches(name, self._limiters, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(
            f"There is no limiter {name!r}.{hint} Register it where the app is made: "
            f"jobs.limiter({name!r}, lambda job: Limit.per_minute(30))."
        )

    def limits_of(self, name: str, job: object) -> list[Limit]:
        """The limits that the limiter gives the job; none of them twice."""
        self.require_limiter(name)
        given = self._limiters[name](job)
        if given is None:
            return []
        limits = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        for limit in limits:
            if not isinstance(limit, Limit):
                raise InvalidArgument(
                    f"The limiter {name!r} gave an object of type {type(limit).__name__}: give a Limit, such as "
                    "Limit.per_minute(30), a list of them, or None for no limit."
                )
        tightest: dict[str, Limit] = {}
        for limit in limits:
            key = limit.quota(name).key
            if key not in tightest or limit.amount < tightest[key].amount:
                tightest[key] = limit
        return list(tightest.values())


def _is_reload(known: LimiterFunction, new: LimiterFunction) -> bool:
    name = getattr(new, "__qualname__", "<lambda>")
    if "<lambda>" in name:
        return getattr(known, "__code__", known) == getattr(new, "__code__", new)
    return (known.__module__, getattr(known, "__qualname__", "")) == (new.__module__, name)
