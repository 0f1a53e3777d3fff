"""What is read from a slate."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class State(IntEnum):
    """How far a worker has come with a job that it holds."""

    HELD = 0
    ENTERED = 1
    """It is rebuilt, or in its middleware."""
    STARTED = 2
    """Its body was entered."""
    DONE = 3
    SKIPPED = 4
    SETTLED = 5
    """The store has been told of its end, whatever that was."""

    @property
    def is_open(self) -> bool:
        """Whether its end is not known."""
        return self in (State.HELD, State.ENTERED, State.STARTED)


class Status(IntEnum):
    """How far a worker process has come itself."""

    STARTING = 0
    READY = 1
    LEAVING = 2


class Order(IntEnum):
    """What a supervisor wants of a worker, as bits."""

    PAUSE = 1
    HURRY = 2
    """When a signal comes, to cut short what runs."""
    LEAVE = 4
    """To end when its errands are run."""
    RESTART = 8
    """That this is for a restart."""
    TIME_IS_UP = 16
    """That this is because the command has run for as long as it was to."""


@dataclass(frozen=True, slots=True)
class Held:
    """One job in a worker's hands, with what names its delivery to the store."""

    id: str
    receipt: str
    queue: str
    name: str
    attempt: int
    state: State


@dataclass(frozen=True, slots=True)
class Running:
    """The attempt that is under way: which job of the lane, since when, its time limit (0: none) and its options.

    `limit` counts from `began`, on the monotonic clock that all processes of a host share; it is `LEFT` when the job is
    out of its middleware. `options` is text that `JobOptions.load` takes, empty if it was too long.
    """

    position: int
    began: float
    limit: float
    options: str


@dataclass(frozen=True, slots=True)
class View:
    """A lane as it was read.

    `asking` is the token of a pop whose answer has not arrived; `token` and `asked` (on the monotonic clock) are those
    of the pop that brought `held`. `in_use`: the application's code runs, or the library around it. `renewed`: when the
    worker itself last sent a renewal that was confirmed.
    """

    number: int
    serial: int = 0
    asking: str | None = None
    token: str = ""
    asked: float = 0.0
    held: tuple[Held, ...] = ()
    running: Running | None = None
    in_use: bool = False
    renewed: float = field(default=0.0, compare=False)  # no sign of life of the job

    @property
    def under_way(self) -> Held | None:
        """The job whose end is not known yet and that has been entered."""
        for held in self.held:
            if held.state in (State.ENTERED, State.STARTED):
                return held
        return None

    @property
    def unsettled(self) -> tuple[Held, ...]:
        """What the store has not been told of."""
        return tuple(held for held in self.held if held.state is not State.SETTLED)
