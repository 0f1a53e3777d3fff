"""A place for one worker process, and what is to come after the one that has ended there: pure decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from ..worker.settings import Stop
from .child import Child

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0

# A worker that dies sooner than this after its start, with no job to blame, may well do so again.
_SOON = 2.0


class Next(Enum):
    """What follows in a slot."""

    AT_ONCE = auto()
    LATER = auto()
    """After a pause, which grows each time."""
    NOTHING = auto()


@dataclass(slots=True)
class Slot:
    """`not_before` is when the next process may start, on the monotonic clock; `is_over` that none is to."""

    number: int
    child: Child | None = None
    not_before: float = 0.0
    is_over: bool = False
    pauses: int = field(default=0)

    def follow(self, what: Next, now: float) -> None:
        """Make ready for what follows."""
        match what:
            case Next.AT_ONCE:
                self.pauses, self.not_before = 0, now
            case Next.LATER:
                self.not_before = now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self.pauses)
                self.pauses = min(self.pauses + 1, 10)
            case Next.NOTHING:
                self.is_over = True


def after(*, stop: Stop | None, was_ready: bool, lived: float, had_work: bool) -> Next:
    """What follows a process that lived for so many seconds. `stop` is why it ended, if it has said so."""
    if stop is None:
        is_bad_luck = was_ready and (had_work or lived >= _SOON)
        return Next.AT_ONCE if is_bad_luck else Next.LATER
    # One that takes itself for an orphan is none as long as somebody is here to see it: a job has closed its lifeline.
    if stop.is_for_a_fresh_one or stop in (Stop.SIGNAL, Stop.INTERRUPTED, Stop.ORPHANED):
        return Next.AT_ONCE
    return Next.NOTHING
