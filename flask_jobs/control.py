"""What ends an attempt early, and `current_job`.

These classes derive from `BaseException`, so that no ``except Exception`` in a job swallows them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from werkzeug.local import LocalProxy

from .envelope import Progress
from .errors import InvalidArgument, JobsError, NoCurrentJob
from .validation import seconds

if TYPE_CHECKING:
    from .batches import Batch


class ReleaseJob(BaseException):
    """Puts the job back, due again in `delay` seconds. Before the body has started it costs no attempt."""

    def __init__(self, delay: float = 0, reason: str = "released by the job") -> None:
        super().__init__(reason)
        self.delay = seconds(delay, what="delay")
        self.reason = reason


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
class Place:
    """Where in which chain the running job stands: `link` counts from 1, and is 0 for the job that catches."""

    id: str
    link: int


@dataclass(frozen=True, slots=True)
class JobContext:
    """The running job, as its own code sees it through `current_job`."""

    id: str
    name: str
    queue: str
    attempt: int
    is_stopping: Callable[[], bool]
    report: Callable[[Progress], None]
    chain: Place | None = None
    find_batch: Callable[[], Batch | None] = lambda: None

    @property
    def batch(self) -> Batch | None:
        """The batch that the job is a member or a callback of, or None."""
        return self.find_batch()

    @property
    def stopping(self) -> bool:
        """Whether the worker is to stop, or the time limit is near: a good moment to release."""
        return self.is_stopping()

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Say how far the job is; shown by ``flask jobs show``."""
        if not isinstance(done, int | float) or not isinstance(total, int | float | None):
            raise InvalidArgument("progress() takes numbers: done, and total if it is known.")
        self.report(Progress(done, total, str(message)))

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
