"""Pops that a server may still be carrying out, though nobody hears of what they bring."""

from __future__ import annotations

from .. import clock

# How long after what they have brought was recovered that is to be done again, in seconds.
_LOOK_AGAIN = (1.0, 10.0)


class LatePops:
    """Says when the jobs of such pops are to be looked for again."""

    def __init__(self) -> None:
        self._due: list[tuple[float, str]] = []

    @property
    def next_due(self) -> float | None:
        """When the next one is due, on the monotonic clock; None if there is none."""
        return min((at for at, _ in self._due), default=None)

    def add(self, token: str) -> None:
        """What this pop has brought was recovered right now."""
        self._due += [(clock.monotonic() + pause, token) for pause in _LOOK_AGAIN]

    def take(self) -> list[str]:
        """The tokens of those that are due, each once."""
        due = [late for late in self._due if late[0] <= clock.monotonic()]
        self._due = [late for late in self._due if late not in due]
        return [token for _, token in due]
