"""Where a worker stands: what it shows of itself, and what it is told while it runs."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from .. import clock
from ..options import JobOptions
from ..pipeline import Witness
from ..slate import Lane, NoLane, State
from .settings import Stop


class Allowance:
    """How many jobs several workers may still take together: each takes from it before it asks for jobs."""

    def __init__(self, jobs: int | None = None) -> None:
        self._left = math.inf if jobs is None else jobs
        self._lock = threading.Lock()

    @property
    def is_spent(self) -> bool:
        """Whether there is none left; some may be given back."""
        return self._left <= 0

    def take(self, wanted: int) -> int:
        """Take so many, or what is left of them, and say how many."""
        if self._left == math.inf:
            return wanted
        with self._lock:
            taken = int(max(0, min(wanted, self._left)))
            self._left -= taken
            return taken

    def give_back(self, unused: int) -> None:
        """There were no jobs for these, or others run them."""
        with self._lock:
            self._left += unused


@dataclass(frozen=True, slots=True)
class Post:
    """What surrounds one worker; alone in its process, nothing does.

    `lane` is where it notes what it holds. `is_held_back` says whether it is to take no job for now, `why_leave` why
    it is to end after its current job, if it is, `why_told` why a signal asks for that, and `is_hurried` whether one
    means to cut it short (None: the second one does). `hear` is called by the handler of each such signal. `errands`
    are ids of failed jobs whose `failed()` method is still to be called; `errand_is_run` takes note of each.
    `allowance` is shared with the workers beside it.
    """

    lane: NoLane = field(default_factory=NoLane)
    is_held_back: Callable[[], bool] = lambda: False
    why_leave: Callable[[], Stop | None] = lambda: None
    why_told: Callable[[], Stop] = lambda: Stop.SIGNAL
    is_hurried: Callable[[], bool] | None = None
    hear: Callable[[], None] = lambda: None
    errands: deque[str] = field(default_factory=deque)
    errand_is_run: Callable[[], None] = lambda: None
    allowance: Allowance = field(default_factory=Allowance)


A = TypeVar("A")


def spared(ask: Callable[[], A], *, every: float) -> Callable[[], A]:
    """The same question, asked no more often than every so many seconds; in between, the last answer holds.

    Safe to call from several threads: whoever comes while it is asked waits for the answer.
    """
    next_time = float("-inf")
    answer: A
    asking = threading.Lock()

    def answered() -> A:
        nonlocal next_time, answer
        if clock.monotonic() < next_time:
            return answer
        with asking:
            if clock.monotonic() >= next_time:
                answer = ask()
                next_time = clock.monotonic() + every
            return answer

    return answered


class LaneWitness(Witness):
    """Notes on the lane how far an attempt has come."""

    needs_pause = True  # for the supervisor, which has the options only, if the job dies with its process

    def __init__(self, lane: Lane, position: int) -> None:
        self._lane = lane
        self._position = position

    def run(self, options: JobOptions) -> None:
        """The job comes under its time limit."""
        self._lane.run(self._position, options.timeout, options.text)

    def start(self) -> None:
        """Its body is entered."""
        self._lane.start(self._position)

    def leave(self) -> None:
        """It has left its middleware, and no limit holds any more."""
        self._lane.unlimited()

    def end(self, *, skipped: bool) -> None:
        """It is done, or has ended quietly."""
        self._lane.end(self._position, State.SKIPPED if skipped else State.DONE)
