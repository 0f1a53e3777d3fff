"""What operators ask of the Redis driver: looking at queues, taking jobs out, emptying and pausing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...driver import PORTION, Clearable, Inspectable, Pausable
from ...stored import State, StoredJob
from ...validation import queue_name
from ...validation import seconds as length
from .client import Server
from .keys import LANES, SEPARATOR, Keys
from .scripts import Scripts
from .values import decoded, stored_job


class RedisOperators(Inspectable, Clearable, Pausable):
    """The capabilities for operators."""

    _server: Server
    _scripts: Scripts
    _keys: Keys

    def queues(self) -> list[str]:
        """The names of all queues that hold a job or are paused, sorted."""
        names = sorted({*self._known_queues(), *self.paused()})
        living: list[str] = []
        for start in range(0, len(names), PORTION):
            portion = names[start : start + PORTION]
            living += [decoded(name) for name in self._scripts.run("queues", len(portion), *portion)]
        return living

    def jobs(
        self, queue: str, *, state: State | None = None, after: str | None = None, limit: int = 50
    ) -> list[StoredJob]:
        """A page of a queue's jobs by id. Walks all ids of the queue, for Redis keeps them by turn and not by id."""
        queue_name(queue)
        page: list[str] = []
        for ids in self._ids(queue, state):
            page = sorted({*page, *(job_id for job_id in ids if after is None or job_id > after)})[:limit]
        found = self._look(page)
        return [job for job in found if state is None or job.state is state]

    def find(self, job_id: str) -> StoredJob | None:
        """The stored job with this id, wherever it waits, or None."""
        return next(iter(self._look([job_id])), None)

    def cancel(self, job_id: str) -> bool:
        """Remove a waiting job, and say whether it was there."""
        return bool(self._scripts.run("cancel", job_id))

    def clear(self, queue: str, *, limit: int = PORTION) -> int:
        """Remove up to `limit` waiting jobs."""
        return int(self._scripts.run("clear", queue_name(queue), min(limit, PORTION)))

    def pause(self, queue: str, *, seconds: float | None = None) -> None:
        """Give out nothing from the queue."""
        until = "" if seconds is None else f"+{length(seconds, what='seconds')!r}"
        self._scripts.run("pause", queue_name(queue), until)

    def resume(self, queue: str) -> bool:
        """Give out jobs again, and wake those who wait for them."""
        return bool(self._scripts.run("resume", queue_name(queue)))

    def paused(self) -> Mapping[str, float | None]:
        """The paused queues, each with the instant its pause ends by itself, or None."""
        pauses = self._scripts.run("paused")
        pairs = zip(pauses[::2], pauses[1::2], strict=True)
        return {decoded(queue): float(till) if till else None for queue, till in pairs}

    def _known_queues(self) -> list[str]:
        return [decoded(name) for name in self._scan("SSCAN", self._keys.named("queues"))]

    def _ids(self, queue: str, state: State | None) -> Iterator[Iterable[str]]:
        """The ids of the queue's jobs, in portions. A job that moves meanwhile may come twice."""
        if state in (State.RESERVED, None):
            yield self._reserved_ids(queue)
        if state is not State.RESERVED:
            yield from self._waiting_ids(queue, state)
        if state is None:
            # Again, for those that were waiting at the first look and popped before the second.
            yield self._reserved_ids(queue)

    def _reserved_ids(self, queue: str) -> list[str]:
        members = self._scan("ZSCAN", self._keys.of_queue("reserved", queue))[::2]
        return [decoded(name).rpartition(SEPARATOR)[2] for name in members]

    def _waiting_ids(self, queue: str, state: State | None) -> Iterator[Iterable[str]]:
        now = self._scripts.now()
        found = self._scan("ZSCAN", self._keys.of_queue("delayed", queue))
        delayed = zip(found[::2], found[1::2], strict=True)
        if state is None:
            yield [decoded(job_id) for job_id, _ in delayed]
        else:
            is_wanted = state is State.DELAYED
            yield [decoded(job_id) for job_id, due in delayed if (float(due) > now) is is_wanted]
        if state is not State.DELAYED:
            for lane in LANES:
                yield from self._listed_ids(self._keys.of_queue(lane, queue))

    def _listed_ids(self, key: str) -> Iterator[list[str]]:
        """A list's ids, read from its tail: what is popped at its head meanwhile shifts nothing."""
        end = -1
        while ids := self._server.run("LRANGE", key, end - PORTION + 1, end):
            yield [decoded(job_id) for job_id in ids]
            end -= PORTION

    def _look(self, ids: list[str]) -> list[StoredJob]:
        seen = self._scripts.run("look", len(ids), *ids)
        return [stored_job(*parts) for parts in seen if parts]

    def _scan(self, command: str, key: str, *options: str) -> list[Any]:
        """All that a cursor gives of a set."""
        found: list[Any] = []
        cursor: bytes | str = "0"
        while True:
            cursor, portion = self._server.run(command, key, cursor, *options, "COUNT", PORTION)
            found += portion
            if cursor == b"0":
                return found
