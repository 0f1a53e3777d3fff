"""The failed jobs in Redis: pages, retries, forgetting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from ...driver import PORTION, StoresFailedJobs
from ...envelope import Hook
from ...stored import FailedJob
from ...validation import queue_name
from ..transitions import key_held
from .client import Server
from .keys import Keys
from .scripts import Scripts
from .values import decoded, failed_job


class RedisFailedJobs(StoresFailedJobs):
    """The capability to keep failed jobs."""

    _server: Server
    _scripts: Scripts
    _keys: Keys

    def failed(
        self, *, queue: str | None = None, name: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[FailedJob]:
        """A page of failed jobs, newest first."""
        high = "+inf" if before is None else f"({before}"
        return [failed_job(*found) for found in self._matching(queue, name, high=high, limit=limit, records=True)]

    def find_failed(self, job_id: str) -> FailedJob | None:
        """The failed job with this id, or None."""
        record = self._server.run("HGET", self._keys.named("failed"), job_id)
        return None if record is None else failed_job(job_id.encode(), record)

    def count_failed(self, *, queue: str | None = None, name: str | None = None) -> int:
        """How many failed jobs are kept."""
        _check(queue)
        if queue is not None and name is not None:
            return sum(1 for _ in self._matching(queue, name, limit=None))
        return int(self._server.run("ZCARD", self._index(queue, name)))

    def newest_failed(self) -> int:
        """The `position` of the newest failed job, 0 if there is none."""
        newest = self._server.run("ZREVRANGE", self._index(None, None), 0, 0, "WITHSCORES")
        return int(newest[1]) if newest else 0

    def retry(self, job_id: str, new_id: str) -> bool:
        """Put the failed job back under `new_id`, in one script."""
        done, held = self._scripts.run("retry", 1, job_id, new_id)
        if held and (failed := self.find_failed(job_id)) is not None:
            raise key_held(failed.envelope, decoded(held[1]))
        return bool(done)

    def retry_many(
        self,
        new_id: Callable[[], str],
        *,
        upto: int,
        queue: str | None = None,
        name: str | None = None,
        limit: int = PORTION,
    ) -> list[tuple[str, str]]:
        """Retry the oldest failed jobs up to a position: found by their index, moved by one script."""
        for old in self._oldest(queue, name, high=str(upto), limit=limit):
            pairs = [(job_id, new_id()) for job_id in old]
            done, _ = self._scripts.run("retry", len(pairs), *[part for pair in pairs for part in pair])
            if done:
                return [pairs[number] for number in done]
            # All of these are held back by their unique keys, or were retried meanwhile; there may be others.
        return []

    def forget(self, job_id: str) -> bool:
        """Delete the failed job; says whether it was there."""
        return bool(self._scripts.run("forget", 1, job_id))

    def flush(self, *, older_than: float | None = None, queue: str | None = None, limit: int = PORTION) -> int:
        """Delete up to `limit` failed jobs: found by their index, deleted by one script."""
        until = None if older_than is None else self._scripts.now() - older_than
        for old in self._oldest(queue, None, until=until, limit=limit):
            forgotten = int(self._scripts.run("forget", len(old), *old))
            if forgotten:
                return forgotten
        return 0

    def note_hook(self, job_id: str, hook: Hook) -> None:
        """Record what became of the job's `failed()` method."""
        self._scripts.run("note_hook", job_id, hook.value)

    def _oldest(
        self, queue: str | None, name: str | None, *, limit: int, high: str = "+inf", until: float | None = None
    ) -> Iterator[list[str]]:
        """Portions of up to `limit` ids, in the order of their positions."""
        most = min(limit, PORTION)
        found = self._matching(queue, name, high=high, until=until, limit=None, ascending=True)
        while portion := [job_id.decode() for job_id, *_ in islice(found, most)]:
            yield portion

    def _matching(
        self,
        queue: str | None,
        name: str | None,
        *,
        limit: int | None,
        high: str = "+inf",
        until: float | None = None,
        ascending: bool = False,
        records: bool = False,
    ) -> Iterator[Any]:
        """Up to `limit` failed jobs in the order of their positions, looked for in portions."""
        _check(queue)
        low, found = "-inf", 0
        chosen = [queue or "", name or "", "" if until is None else repr(until)]
        while limit is None or found < limit:
            wanted = PORTION if limit is None else min(PORTION, limit - found)
            flags = ["" if ascending else "1", wanted, "1" if records else ""]
            last, portion = self._scripts.run("failed", *chosen, low, high, *flags)
            yield from portion
            found += len(portion)
            if not last:
                return
            low, high = (f"({int(last)}", high) if ascending else (low, f"({int(last)}")

    def _index(self, queue: str | None, name: str | None) -> str:
        if name is not None:
            return self._keys.named(f"failed:name:{name}")
        return self._keys.named("failed:all" if queue is None else f"failed:queue:{queue}")


def _check(queue: str | None) -> None:
    if queue is not None:
        queue_name(queue)
