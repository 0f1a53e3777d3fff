"""Jobs, chains and batches as what a driver stores: encoded, named, and given their places. Sends nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from .config import Config, ConnectionSettings
from .dispatched import Options
from .driver import Driver
from .envelope import NOW, Envelope, Ties, When
from .errors import InvalidArgument
from .ids import new_id
from .job import Job, require_body, require_job
from .options import Checker, deadline
from .pushes import BatchPush, ChainPush, Push, Role
from .serializer import Serializer
from .unique import key_of
from .validation import job_id, queue_name, when

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Target:
    """The connection that a job is for, and its driver."""

    settings: ConnectionSettings
    driver: Driver


class Enveloper:
    """Puts the jobs of one app into envelopes. `driver` gives a connection's driver by name.

    `check` refuses a job that the app could not run.
    """

    def __init__(
        self,
        config: Config,
        driver: Callable[[str], Driver],
        serializer: Callable[[Driver], Serializer],
        check: Callable[[Job], None],
    ) -> None:
        self._check = check
        self._check_options = Checker()
        self._config = config
        self._driver = driver
        self._serializer = serializer

    def target(self, job: Job | None, options: Options) -> Target:
        """Where a job goes: what the call says, else its class, else the default."""
        settings = self._config.connection(first(options.connection, None if job is None else job.connection))
        return Target(settings, self._driver(settings.name))

    def push(self, job: Job, target: Target, options: Options) -> Push:
        """A job that stands alone."""
        queue = first(options.queue, job.queue, target.settings.queue)
        id_ = new_id() if options.id is None else job_id(options.id)
        push = self._push(job, target, queue, None, id_)
        due = _due(options)
        return replace(push, due=due, front=options.front) if options.front or due is not NOW else push

    def chain(self, jobs: Sequence[Job], catch: Job | None, target: Target, options: Options) -> ChainPush:
        """A chain: each link on its own queue, else on the one of the call; the delay holds for the first."""
        if not jobs:
            raise InvalidArgument("A chain needs at least one job.")
        id_ = new_id()
        links = [
            self._planned(job, target, options, Ties(chain=id_, link=place)) for place, job in enumerate(jobs, start=1)
        ]
        links[0] = replace(links[0], due=_due(options))
        last = None if catch is None else self._planned(catch, target, options, Ties(chain=id_, is_callback=True))
        return ChainPush(id_, tuple(links), last)

    def batch(
        self,
        jobs: Iterable[Job],
        callbacks: Mapping[Role, Job | None],
        target: Target,
        options: Options,
        *,
        name: str,
        allow_failures: bool,
    ) -> BatchPush:
        """A batch: each member on its own queue, else on the one of the call, and all with its delay."""
        id_ = new_id()
        told = {
            role: self._planned(job, target, options, Ties(batch=id_, is_callback=True))
            for role, job in callbacks.items()
            if job is not None
        }
        return BatchPush(id_, self.members(jobs, id_, target, options), name, told, allow_failures)

    def members(self, jobs: Iterable[Job], batch: str, target: Target, options: Options) -> tuple[Push, ...]:
        """More members of a batch."""
        due = _due(options)
        return tuple(replace(self._planned(job, target, options, Ties(batch=batch)), due=due) for job in jobs)

    def _planned(self, job: Job, target: Target, options: Options, ties: Ties) -> Push:
        require_job(job)
        if job.connection is not None and job.connection != target.settings.name:
            raise InvalidArgument(
                f"{type(job).__name__} is for the connection {job.connection!r}, but its chain or batch is on "
                f"{target.settings.name!r}: all of it must be on one. Dispatch that job from another one's handle()."
            )
        return self._push(job, target, first(job.queue, options.queue, target.settings.queue), ties, new_id())

    def _push(self, job: Job, target: Target, queue: str | None, ties: Ties | None, id_: str) -> Push:
        self._check_options(job)
        self._check(job)
        name, body = self._serializer(target.driver).encode(job)
        require_body(job)
        if job.unique:
            ties = replace(ties or Ties(), key=key_of(job, name))
        return Push(Envelope(id_, name, queue_name(queue), body, ties=ties), retry_until=deadline(job))


def first(*values: T | None) -> T | None:
    """The first of the values that is not None."""
    for value in values:
        if value is not None:
            return value
    return None


def _due(options: Options) -> When:
    return NOW if options.delay is None else when(options.delay, what="delay")
