"""The failed jobs of the memory driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice

from ... import history, validation
from ...driver import PORTION, StoresFailedJobs
from ...envelope import Envelope, Hook
from ...stored import FailedJob, State
from ...validation import queue_name
from ..transitions import key_held, moved_deadline, retried
from .following import Following
from .shelves import Failure, Job


class FailedJobs(Following, StoresFailedJobs):
    """Keeps failed jobs, the oldest first, until they are retried or forgotten."""

    def failed(
        self, *, queue: str | None = None, name: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[FailedJob]:
        """A page of failed jobs, newest first; `before` is the `position` of the last one of the page before."""
        with self.changing:
            newest_first = reversed(list(self._wanted(queue, name)))
            page = (failure for failure in newest_first if before is None or failure.position < before)
            return [failure.shown() for failure in islice(page, limit)]

    def find_failed(self, job_id: str) -> FailedJob | None:
        """The failed job with this id, or None."""
        with self.changing:
            failure = self.failures.get(job_id)
            return None if failure is None else failure.shown()

    def count_failed(self, *, queue: str | None = None, name: str | None = None) -> int:
        """How many failed jobs are kept."""
        with self.changing:
            return sum(1 for _ in self._wanted(queue, name))

    def newest_failed(self) -> int:
        """The `position` of the newest failed job, 0 if there is none."""
        with self.changing:
            return max((failure.position for failure in self.failures.values()), default=0)

    def retry(self, job_id: str, new_id: str) -> bool:
        """Put the failed job back under `new_id`. False if there is no such failed job."""
        with self.changing:
            failure = self.failures.get(job_id)
            if failure is None:
                return False
            holder = self._retry(failure, new_id)
            if holder is not None:
                raise key_held(failure.job.envelope, holder)
            return True

    def retry_many(
        self,
        new_id: Callable[[], str],
        *,
        upto: int,
        queue: str | None = None,
        name: str | None = None,
        limit: int = PORTION,
    ) -> list[tuple[str, str]]:
        """Retry the oldest failed jobs with a `position` of at most `upto`, up to `limit` of them."""
        with self.changing:
            retried_ids: list[tuple[str, str]] = []
            for failure in list(self._wanted(queue, name)):  # each that is retried is taken out
                if len(retried_ids) >= min(limit, PORTION) or failure.position > upto:
                    break
                if self._retry(failure, id_ := new_id()) is None:
                    retried_ids.append((failure.job.envelope.id, id_))
            return retried_ids

    def forget(self, job_id: str) -> bool:
        """Delete the failed job; says whether it was there."""
        with self.changing:
            failure = self.failures.get(job_id)
            if failure is not None:
                self._forget(failure)
            return failure is not None

    def flush(self, *, older_than: float | None = None, queue: str | None = None, limit: int = PORTION) -> int:
        """Delete up to `limit` failed jobs, those that failed at least `older_than` seconds ago; returns how many."""
        age = 0.0 if older_than is None else validation.seconds(older_than, what="older_than")
        with self.changing:
            now = self.now()
            old = (failure for failure in self._wanted(queue, None) if failure.failed_at <= now - age)
            doomed = list(islice(old, min(limit, PORTION)))
            for failure in doomed:
                self._forget(failure)
            return len(doomed)

    def note_hook(self, job_id: str, hook: Hook) -> None:
        """Record what became of the job's `failed()` method."""
        with self.changing:
            if job_id in self.failures:
                self.failures[job_id].hook = hook

    def _wanted(self, queue: str | None, name: str | None) -> Iterator[Failure]:
        if queue is not None:
            queue_name(queue)
        return (failure for failure in self.failures.values() if _matches(failure.job.envelope, queue, name))

    def _retry(self, failure: Failure, new_id: str) -> str | None:
        """Retry the job, or give the one that holds its unique key."""
        old, now = failure.job, self.now()
        envelope = replace(old.envelope, id=new_id, retried_from=old.envelope.id)
        holder = self.take_key(envelope, now)
        if holder is not None:
            return holder
        job = Job(envelope, next(self.serial), pushed_at=now)
        job.retry_until = moved_deadline(old.retry_until, pushed_at=old.pushed_at, now=now)
        job.history = history.extended(old.history, retried(old.envelope.id, old.counters, now))
        del self.failures[old.envelope.id]
        self.put_back(job, State.READY, 0.0)
        self.follow_retry(job)
        return None

    def _forget(self, failure: Failure) -> None:
        del self.failures[failure.job.envelope.id]
        self.tell_forgotten(failure.job.envelope)


def _matches(envelope: Envelope, queue: str | None, name: str | None) -> bool:
    return queue in (None, envelope.queue) and name in (None, envelope.name)
