"""A statement as a server's Python driver takes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

Parameters = Mapping[str, object]

PRESENT = "now"
"""The parameter that is the present of a local clock. It is the same for all that a transaction runs."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A compiled statement. `names` are its parameters in order, or None if they go by name."""

    text: str
    names: tuple[str, ...] | None
    _in_order: Callable[[Parameters], Any] = field(init=False, repr=False, compare=False)
    _asks_for_present: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = self.names
        object.__setattr__(self, "_in_order", dict if names is None else _in_order(names))
        object.__setattr__(self, "_asks_for_present", names is None or PRESENT in names)

    def bind(self, parameters: Parameters, present: float) -> Any:
        """The parameters in the form that the server's Python driver takes."""
        return self._in_order({PRESENT: present, **parameters} if self._asks_for_present else parameters)

    def bind_all(self, rows: Sequence[Parameters], present: float) -> Sequence[Any]:
        """The same for each of several runs."""
        if self._asks_for_present:
            return [self._in_order({PRESENT: present, **row}) for row in rows]
        return list(map(self._in_order, rows))


@dataclass(frozen=True, slots=True)
class Ran:
    """How many rows a statement has touched, and those that it gave."""

    touched: int
    rows: Sequence[tuple[Any, ...]] = ()


def _in_order(names: tuple[str, ...]) -> Callable[[Parameters], Any]:
    if len(names) > 1:
        return itemgetter(*names)
    return lambda parameters: tuple([parameters[name] for name in names])
