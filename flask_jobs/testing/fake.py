"""The fake: records what is dispatched, asserts on it, and can run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

from .. import clock
from ..config import ConnectionSettings
from ..driver import Driver
from ..envelope import Room
from ..errors import InvalidArgument
from ..ids import new_id
from ..job import Job, Task
from ..pushes import BatchPush, ChainPush, Package, Push
from ..state import AppState
from ..stored import FailedJob
from ..validation import seconds as as_seconds
from .differences import Sought, batches_text, chains_text, nearest_text, pushed_text
from .pushed import PushedBatch, PushedChain, PushedJob, Where
from .recording import RecordingDriver
from .run import Result, attempt

Wanted = type[Job] | Task[Any, Any] | str


class FakeQueue:
    """Stands in for every connection of an app: jobs are encoded, recorded and kept in memory, and run on demand.

    `job` is a job class, a task function or a registered name; `where` sees a rebuilt job with its models loaded.
    """

    def __init__(self, state: AppState) -> None:
        self._state = state
        self._pushed: list[PushedJob] = []
        self._refused: list[PushedJob] = []
        self._chains: list[PushedChain] = []
        self._batches: list[PushedBatch] = []
        self._drivers: dict[str, RecordingDriver] = {}
        self._travelled = 0.0

    @classmethod
    @contextmanager
    def installed(cls, state: AppState) -> Iterator[FakeQueue]:
        """Within the block the app's connections lead here; an outer fake is back afterwards."""
        queue = cls(state)
        with state.connections.diverted(queue._driver_of), state.dispatcher.delivery.refusing(queue._note_refused):
            yield queue

    def pushed(self, job: Wanted | None = None, where: Where | None = None) -> list[PushedJob]:
        """What was pushed, in order; of one kind, or all."""
        return self._such(self._pushed, job, where)

    def duplicates(self, job: Wanted | None = None, where: Where | None = None) -> list[PushedJob]:
        """What was dropped, in order, because another job held its unique key: its `holder`."""
        return self._such(self._refused, job, where)

    def has_pushed(self, job: Wanted, where: Where | None = None) -> bool:
        """Whether such a job was pushed."""
        return bool(self.pushed(job, where))

    def assert_pushed(self, job: Wanted, where: Where | None = None) -> None:
        """At least one such job was pushed."""
        if not self.pushed(job, where):
            self._fail(f"{_title(job)} was not pushed{_such(where)}", job, where)

    def assert_not_pushed(self, job: Wanted, where: Where | None = None) -> None:
        """No such job was pushed."""
        found = self.pushed(job, where)
        if found:
            raise AssertionError(f"{_title(job)} was pushed{_such(where)}:\n{pushed_text(found)}")

    def assert_pushed_once(self, job: Wanted, where: Where | None = None) -> None:
        """Exactly one such job was pushed."""
        self.assert_pushed_times(job, 1, where)

    def assert_pushed_times(self, job: Wanted, times: int, where: Where | None = None) -> None:
        """Exactly so many such jobs were pushed."""
        found = len(self.pushed(job, where))
        if found != times:
            self._fail(f"{_title(job)} was pushed {found} times{_such(where)}, not {times}", job, where)

    def assert_pushed_on(self, queue: str, job: Wanted, where: Where | None = None) -> None:
        """At least one such job was pushed on this queue."""
        if not any(p.queue == queue for p in self.pushed(job, where)):
            self._fail(
                f"{_title(job)} was not pushed on the queue {queue!r}{_such(where)}",
                job,
                where,
                differs=lambda push: f"it is on the queue {push.queue!r}, not {queue!r}",
            )

    def assert_pushed_in(
        self, job: Wanted, seconds: float | timedelta, delta: float = 1.0, where: Where | None = None
    ) -> None:
        """At least one such job was pushed with this delay (seconds or timedelta), give or take `delta` seconds."""
        wanted = as_seconds(seconds, what="seconds")
        if not any(abs(p.delay - wanted) <= delta for p in self.pushed(job, where)):
            self._fail(
                f"{_title(job)} was not pushed with a delay of {wanted:g} s{_such(where)}",
                job,
                where,
                differs=lambda push: f"its delay is {push.delay:g} s, not {wanted:g} s",
                distance=lambda push: abs(push.delay - wanted),
            )

    def assert_pushed_after_commit(self, job: Wanted, where: Where | None = None) -> None:
        """At least one such job was pushed, and had waited for a commit."""
        if not any(p.after_commit for p in self.pushed(job, where)):
            self._fail(
                f"{_title(job)} was not pushed after a commit{_such(where)}",
                job,
                where,
                differs=lambda push: "it was pushed at once, for no transaction that had written was open",
            )

    def assert_duplicate(self, job: Wanted, where: Where | None = None) -> None:
        """At least one such job was dropped, because another one held its unique key."""
        if not self.duplicates(job, where):
            refused = pushed_text(self._refused, nothing="No job was dropped for another one.")
            raise AssertionError(f"{_title(job)} was not dispatched as a duplicate{_such(where)}.\n{refused}")

    def assert_chained(self, jobs: Sequence[Wanted], where: Where | None = None) -> None:
        """At least one chain of exactly these jobs, in this order, was dispatched; `where` sees its first job."""
        names = list(map(self._name, jobs))
        if not any(chain.is_of(names) and (where is None or chain.links[0].satisfies(where)) for chain in self._chains):
            wanted = " → ".join(map(_title, jobs))
            raise AssertionError(f"The chain {wanted} was not dispatched{_such(where)}.\n{chains_text(self._chains)}")

    def assert_batched(self, jobs: Sequence[Wanted], where: Callable[[PushedBatch], bool] | None = None) -> None:
        """At least one batch of exactly these jobs, in any order, was dispatched; `where` sees the batch."""
        names = list(map(self._name, jobs))
        if not any(batch.is_of(names) and (where is None or where(batch)) for batch in self._batches):
            wanted = ", ".join(map(_title, jobs))
            raise AssertionError(
                f"A batch of {wanted} was not dispatched{_such(where)}.\n{batches_text(self._batches)}"
            )

    @property
    def batches(self) -> list[PushedBatch]:
        """The batches that were dispatched, in order."""
        return list(self._batches)

    @property
    def chains(self) -> list[PushedChain]:
        """The chains that were dispatched, in order."""
        return list(self._chains)

    def assert_nothing_pushed(self) -> None:
        """Nothing was pushed."""
        self.assert_count(0)

    def assert_count(self, count: int) -> None:
        """Exactly so many jobs were pushed, of whatever kind."""
        if len(self._pushed) != count:
            raise AssertionError(f"{len(self._pushed)} jobs were pushed, not {count}:\n{pushed_text(self._pushed)}")

    @property
    def failed(self) -> list[FailedJob]:
        """The jobs that `drain()` ran and that failed for good, oldest first."""
        kept = [job for driver in self._drivers.values() for job in driver.failed(limit=len(self._pushed) + 1)]
        return sorted(kept, key=lambda job: job.failed_at)

    def drain(self, *, travel: bool = False, limit: int = 1_000) -> list[Result]:
        """Run what is due, through the executor and policy of a worker, until nothing is; retries included.

        What is due is told by the test's clock; with `travel` the fake's own clock moves on to each next due time.
        More than `limit` attempts fail the test: a job that always releases itself would never end.
        """
        results: list[Result] = []
        while (result := self._next(travel)) is not None:
            results.append(result)
            if len(results) >= limit:
                raise AssertionError(f"drain() has run {limit} attempts, and jobs are still due:\n{self._waiting()}")
        return results

    def reset(self) -> None:
        """Forget all that was pushed, and what still waits."""
        for record in (self._pushed, self._refused, self._chains, self._batches, self._drivers):
            record.clear()

    def _next(self, travel: bool) -> Result | None:
        instants = []
        for connection, driver in self._drivers.items():
            popped = driver.pop(driver.queues(), new_id(), Room())
            if popped.reservations:
                return attempt(self._state, driver, popped.reservations[0], connection)
            if popped.next_due is not None:
                instants.append(popped.next_due)
        if not travel or not instants:
            return None
        self._travelled += max(0.0, min(instants) - self._now())
        return self._next(travel)

    def _now(self) -> float:
        return clock.now() + self._travelled

    def _driver_of(self, settings: ConnectionSettings) -> Driver:
        if settings.name not in self._drivers:
            self._drivers[settings.name] = RecordingDriver(settings, self._now, self._record)
        return self._drivers[settings.name]

    def _record(self, connection: str, package: Package) -> None:
        match package:
            case Push():
                self._pushed.append(self._seen(connection, package))
            case ChainPush(links=links):
                self._chains.append(PushedChain(tuple(self._seen(connection, push) for push in links)))
            case BatchPush(members=members):
                seen = tuple(self._seen(connection, push) for push in members)
                self._batches.append(PushedBatch(package, seen))

    def _note_refused(self, connection: str, push: Push, holder: str) -> None:
        self._refused.append(replace(self._seen(connection, push), holder=holder))

    def _seen(self, connection: str, push: Push) -> PushedJob:
        return PushedJob(push, connection, self._now(), self._state)

    def _such(self, found: Sequence[PushedJob], job: Wanted | None, where: Where | None) -> list[PushedJob]:
        if job is not None:
            names = self._names(job)  # also where nothing was pushed, so that a wrong name never passes
            found = [p for p in found if p.name in names]
        return [p for p in found if where is None or p.satisfies(where)]

    def _names(self, job: Wanted) -> set[str]:
        return {self._name(job), job} if isinstance(job, str) else {self._name(job)}

    def _name(self, job: Wanted) -> str:
        registry = self._state.registry
        if isinstance(job, str):
            return registry.name_of(registry.job_class(job))
        if isinstance(job, Job):
            raise InvalidArgument(
                f"{type(job).__name__}(…) is one job, and its fields would not be compared: give the class, and where= "
                "for what is to hold of it."
            )
        return registry.name_of(job.job if isinstance(job, Task) else job)

    def _fail(
        self,
        message: str,
        job: Wanted,
        where: Where | None,
        *,
        differs: Callable[[PushedJob], str] = lambda push: "",
        distance: Callable[[PushedJob], float] = lambda push: 0.0,
    ) -> None:
        sought = Sought(self._names(job), where, differs, distance)
        raise AssertionError(f"{message}.\n{nearest_text(self._pushed, sought)}")

    def _waiting(self) -> str:
        ids = {job.envelope.id for driver in self._drivers.values() for q in driver.queues() for job in driver.jobs(q)}
        return pushed_text([p for p in self._pushed if p.id in ids])


def _title(job: Wanted) -> str:
    return job if isinstance(job, str) else job.__name__


def _such(where: Where | None) -> str:
    return "" if where is None else " such that the condition holds"
