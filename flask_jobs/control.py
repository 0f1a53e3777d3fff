"""What ends an attempt early, and `current_job`.

These classes derive from `BaseException`, so that no ``except Exception`` in a job swallows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

from werkzeug.local import LocalProxy

from .envelope import Progress, Reservation
from .errors import ConfigurationError, InvalidArgument, JobsError, NoCurrentJob
from .limits import Limit
from .store import Store
from .validation import seconds

if TYPE_CHECKING:
    from .batches import Batch


class ReleaseJob(BaseException):
    """Puts the job back, due again in `delay` seconds.

    Before the body has started it costs no attempt, unless `spend_attempt` is true or, where that is None,
    JOBS_RELEASES_SPEND_ATTEMPTS.
    """

    def __init__(
        self, delay: float = 0, reason: str = "released by the job", *, spend_attempt: bool | None = None
    ) -> None:
        super().__init__(reason)
        self.delay = seconds(delay, what="delay")
        self.reason = reason
        self.spend_attempt = spend_attempt


class DiscardJob(BaseException):
    """Ends the job quietly, as if it had succeeded."""


class FailJob(BaseException):
    """Fails the job for good, whatever attempts are left."""

    def __init__(self, error: BaseException | str) -> None:
        super().__init__(str(error))
        self.error = error if isinstance(error, BaseException) else JobFailed(error)


class JobFailed(JobsError):
    """The error of a job that failed itself with a plain message."""


class JobTimeout(BaseException):
    """The attempt has reached its time limit."""


class JobInterrupted(BaseException):
    """The worker has to go and cuts the attempt short."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A store to guard jobs with.

    `lasting` is how many seconds a lock lives that nobody extends. Where it stands beside the job's own connection,
    a lock lives as long as the job's delivery instead.
    """

    store: Store
    lasting: float
    is_beside: bool


class Guards(Protocol):
    """What middleware finds of the application."""

    @property
    def releases_spend(self) -> bool:
        """Whether a release before the body has started costs an attempt, where nobody says."""

    def guard(self, name: str | None) -> Guard:
        """The store of that name, or the one that the application has chosen."""

    def limits(self, limiter: str, job: object) -> Sequence[Limit]:
        """The limits that the limiter gives the job."""

    def name_of(self, job: object) -> str:
        """The job's registered name, whatever name it was stored under."""

    def keep(self, what: str, extend: Callable[[], bool], *, seconds: float) -> Callable[[], None]:
        """Call `extend` before `seconds` are over, time after time, until what this returns is called."""


class NoGuards:
    """Where there is no application."""

    releases_spend = False

    def guard(self, name: str | None) -> Guard:
        """There is none."""
        raise ConfigurationError("Nothing here keeps locks or limits for jobs: run the job through its app.")

    def limits(self, limiter: str, job: object) -> Sequence[Limit]:
        """There are none."""
        raise ConfigurationError(f"There is no limiter {limiter!r} here: run the job through its app.")

    def name_of(self, job: object) -> str:
        """The name of its class."""
        return type(job).__name__

    def keep(self, what: str, extend: Callable[[], bool], *, seconds: float) -> Callable[[], None]:
        """Nothing is held."""
        return lambda: None


class Run(Protocol):
    """The attempt that is under way, as middleware sees it.

    What is added to `afterwards` is called, the last first, when the job has left its middleware and its sessions are
    removed, where no time limit cuts it short; what is added to `undo` if the job is not put back. What these raise is
    logged and changes nothing.
    """

    reservation: Reservation
    guards: Guards
    afterwards: list[Callable[[], object]]
    undo: list[Callable[[], object]]

    @property
    def has_started(self) -> bool:
        """Whether the body was entered."""

    def is_near_its_end(self) -> bool:
        """Whether the worker is to stop, or the time limit is near."""

    def report(self, progress: Progress) -> None:
        """Take note of how far the job says that it is."""

    def find_batch(self) -> Batch | None:
        """The batch that the job belongs to, if it does."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which chain the running job stands: `link` counts from 1, and is 0 for the job that catches."""

    id: str
    link: int


class JobContext:
    """The running job, as its own code sees it through `current_job`; `run` is for middleware."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        self.run = run

    @property
    def id(self) -> str:
        """The job's id."""
        return self.run.reservation.envelope.id

    @property
    def name(self) -> str:
        """The name that it was stored under."""
        return self.run.reservation.envelope.name

    @property
    def queue(self) -> str:
        """The queue that it came from."""
        return self.run.reservation.envelope.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt, 1 on the first."""
        return self.run.reservation.attempt

    @property
    def chain(self) -> Place | None:
        """The job's place in its chain, or None."""
        ties = self.run.reservation.envelope.ties
        return None if ties is None or ties.chain is None else Place(ties.chain, ties.link)

    @property
    def batch(self) -> Batch | None:
        """The batch that the job is a member or a callback of, or None."""
        return self.run.find_batch()

    @property
    def stopping(self) -> bool:
        """Whether the worker is to stop, or the time limit is near: a good moment to release."""
        return self.run.is_near_its_end()

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Say how far the job is; shown by ``flask jobs show``."""
        if not isinstance(done, int | float) or not isinstance(total, int | float | None):
            raise InvalidArgument("progress() takes numbers: done, and total if it is known.")
        self.run.report(Progress(done, total, str(message)))

    def release(self, delay: float = 0) -> NoReturn:
        """Stop here and put the job back, due in `delay` seconds. The attempt is spent."""
        raise ReleaseJob(delay)

    def fail(self, error: BaseException | str) -> NoReturn:
        """Stop here and fail the job for good."""
        raise FailJob(error)

    def delete(self) -> NoReturn:
        """Stop here and end the job quietly."""
        raise DiscardJob("deleted by the job")


running: ContextVar[JobContext] = ContextVar("flask_jobs.running")


def _current() -> JobContext:
    try:
        return running.get()
    except LookupError:
        raise NoCurrentJob("No job is running here: current_job exists inside handle() and its middleware.") from None


current_job: JobContext = LocalProxy(_current)  # type: ignore[assignment]  # a proxy stands for what it returns
"""The running job: `id`, `name`, `queue`, `attempt`, `progress()`, `release()`, `fail()`, `delete()`, `stopping`."""
