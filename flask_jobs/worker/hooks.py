"""The `failed()` methods of jobs that have failed for good."""

from __future__ import annotations

import logging
from collections.abc import Callable

from .. import log
from ..control import JobTimeout
from ..driver import Driver, StoresFailedJobs
from ..envelope import Fail, Hook, Reservation
from ..errors import ConnectionLost, MaxAttemptsExceeded, StoreRefused, WorkerDied
from ..events import about
from ..executor import Attempt, Executor
from ..job import Job
from ..options import WorkerDefaults, resolve
from ..outcome import Hopeless, Newer, Unknown
from ..pipeline import Timer
from ..slate import NoLane
from ..stored import FailedJob

logger = logging.getLogger(__name__)

_KNOWN = (JobTimeout, WorkerDied, MaxAttemptsExceeded)


class Hooks:
    """Calls them, within the job's own time limit, and records what became of it."""

    def __init__(
        self,
        driver: Driver,
        executor: Executor,
        *,
        timer: Timer,
        defaults: WorkerDefaults,
        lane: NoLane | None = None,
    ) -> None:
        self._driver = driver
        self._executor = executor
        self._lane = NoLane() if lane is None else lane
        self._timer = timer
        self._defaults = defaults

    def call(self, attempt: Attempt, fail: Fail, error: BaseException) -> None:
        """Call that of a job which has failed in this process."""
        if _may_have_hook(attempt):
            timeout = attempt.options.timeout
            self._call(fail.reservation, error, limit=lambda job: timeout, rebuilding=timeout)
        else:
            self._note(fail.reservation, Hook.NONE)

    def run_errand(self, job_id: str) -> None:
        """Call that of a job whose worker has not lived to call it, if its record is still there and waits."""
        if not isinstance(self._driver, StoresFailedJobs):
            return
        failed = self._driver.find_failed(job_id)
        if failed is None or failed.hook is not Hook.PENDING:
            return
        # Before it is called: whoever dies with it is not to be followed by another who calls it again.
        self._driver.note_hook(job_id, Hook.RAISED)
        default = resolve(None, self._defaults).timeout
        self._call(_as_it_ended(failed), _error_of(failed), limit=self._own_limit, rebuilding=default)

    def _own_limit(self, job: Job) -> float:
        return resolve(job, self._defaults).timeout

    def _call(
        self, reservation: Reservation, error: BaseException, *, limit: Callable[[Job], float], rebuilding: float
    ) -> None:
        def begin(job: Job) -> float:
            seconds = limit(job)
            self._lane.limit(seconds)
            return seconds

        self._lane.limit(rebuilding)
        hook = self._executor.run_hook(reservation, error, timer=self._timer, limit=begin)
        self._lane.unlimited()
        self._note(reservation, hook)

    def _note(self, reservation: Reservation, hook: Hook) -> None:
        if not isinstance(self._driver, StoresFailedJobs):
            return
        job_id = reservation.envelope.id
        try:
            self._driver.note_hook(job_id, hook)
        except (ConnectionLost, StoreRefused):
            message = "That failed() of job %s %s is not recorded."
            log.complain(logger, message, job_id, hook.value, fields=about(reservation))


def _may_have_hook(attempt: Attempt) -> bool:
    if attempt.job is None:
        # What failed because it cannot be rebuilt can be rebuilt no better for its hook.
        return not isinstance(attempt.outcome, Hopeless | Newer | Unknown)
    return type(attempt.job).failed is not Job.failed


def _as_it_ended(failed: FailedJob) -> Reservation:
    return Reservation(failed.envelope, failed.counters, receipt="", now=failed.failed_at, pushed_at=failed.pushed_at)


def _error_of(failed: FailedJob) -> BaseException:
    """The error as recorded. Those of a supervisor are all known here, those of a job are told by their names."""
    name = failed.error.type.rpartition(".")[2]
    known: dict[str, type[BaseException]] = {one.__name__: one for one in _KNOWN}
    if name in known:
        return known[name](failed.error.message)
    return MaxAttemptsExceeded(f"{failed.error.type}: {failed.error.message}")
