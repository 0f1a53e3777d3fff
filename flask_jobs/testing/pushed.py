"""A recorded push, as tests look at it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..envelope import After
from ..job import Job
from ..pushes import BatchPush, Push
from ..state import AppState

Where = Callable[[Any], bool]


@dataclass(frozen=True)
class PushedJob:
    """One recorded push. `delay` is in seconds, `after_commit` says that it waited for a commit.

    `holder` is the job that held its unique key, if it was dropped for that one.
    """

    push: Push
    connection: str
    pushed_at: float
    state: AppState
    holder: str | None = None

    @property
    def id(self) -> str:
        """The job's id."""
        return self.push.envelope.id

    @property
    def name(self) -> str:
        """The registered name."""
        return self.push.envelope.name

    @property
    def queue(self) -> str:
        """The queue it was pushed on."""
        return self.push.envelope.queue

    @property
    def delay(self) -> float:
        """Seconds from the push until it is due."""
        due = self.push.due
        return due.seconds if isinstance(due, After) else due.instant - self.pushed_at

    @property
    def after_commit(self) -> bool:
        """Whether it waited for a commit."""
        return self.push.deferred

    @cached_property
    def job(self) -> Job:
        """The job, rebuilt: values as of dispatch, models loaded now into the current app context's session."""
        return self.state.serializer.decode(self.push.envelope)

    def satisfies(self, where: Where) -> bool:
        """Whether the condition holds for the job as a worker would see it, loaded in a session of its own."""
        with self.state.fresh():
            return bool(where(self.state.serializer.decode(self.push.envelope)))


@dataclass(frozen=True, slots=True)
class PushedChain:
    """One recorded chain: its links, in order."""

    links: tuple[PushedJob, ...]

    @property
    def names(self) -> list[str]:
        """The registered names of its jobs."""
        return [link.name for link in self.links]

    def is_of(self, names: Sequence[str]) -> bool:
        """Whether its jobs have these names, in this order."""
        return self.names == list(names)


@dataclass(frozen=True, slots=True)
class PushedBatch:
    """One recorded batch: its members, in order."""

    batch: BatchPush
    members: tuple[PushedJob, ...]

    @property
    def name(self) -> str:
        """The name that was given to it."""
        return self.batch.name

    @property
    def allow_failures(self) -> bool:
        """Whether a failure leaves the rest alone."""
        return self.batch.allow_failures

    @property
    def names(self) -> list[str]:
        """The registered names of its jobs."""
        return [member.name for member in self.members]

    def is_of(self, names: Sequence[str]) -> bool:
        """Whether its jobs have these names, in any order."""
        return sorted(self.names) == sorted(names)
