"""What operators do to queues in memory."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, islice

from ... import validation
from ...driver import PORTION, Clearable, Inspectable, Pausable
from ...stored import State, StoredJob
from ...validation import queue_name
from ..transitions import End
from .following import Following


class Operators(Following, Inspectable, Clearable, Pausable):
    """Looking at what waits, taking single jobs out, emptying and holding back queues."""

    def queues(self) -> list[str]:
        """The names of all queues that hold a job or are paused, sorted."""
        with self.changing:
            return sorted(self.shelves.queues() | set(self.pauses(self.now())))

    def jobs(
        self, queue: str, *, state: State | None = None, after: str | None = None, limit: int = 50
    ) -> list[StoredJob]:
        """A page of a queue's jobs by id; `after` is the last id of the page before."""
        queue_name(queue)
        with self.changing:
            now = self.now()
            of_queue = [job.shown(now) for lane in State for job in self.shelves.lane(queue, lane)]
            wanted = [job for job in of_queue if state in (None, job.state) and job.envelope.id > (after or "")]
            return sorted(wanted, key=lambda job: job.envelope.id)[:limit]

    def find(self, job_id: str) -> StoredJob | None:
        """The stored job with this id, or None."""
        with self.changing:
            job = self.shelves.jobs.get(job_id)
            return None if job is None else job.shown(self.now())

    def cancel(self, job_id: str) -> bool:
        """Remove a waiting job, and say whether it was there. A reserved one is not touched."""
        with self.changing:
            job = self.shelves.jobs.get(job_id)
            if job is None or job.state is State.RESERVED:
                return False
            self.end(job, self.now())
            self.tell(job.envelope, End.REMOVED)
            return True

    def clear(self, queue: str, *, limit: int = PORTION) -> int:
        """Remove up to `limit` waiting jobs; returns how many."""
        queue_name(queue)
        with self.changing:
            now = self.now()
            waiting = chain(self.shelves.lane(queue, State.READY), self.shelves.lane(queue, State.DELAYED))
            doomed = list(islice(waiting, min(limit, PORTION)))
            for job in doomed:
                self.end(job, now)
                self.tell(job.envelope, End.REMOVED)
            return len(doomed)

    def pause(self, queue: str, *, seconds: float | None = None) -> None:
        """Give out nothing from the queue, for so many seconds or until `resume`."""
        queue_name(queue)
        lasting = None if seconds is None else validation.seconds(seconds, what="seconds")
        with self.changing:
            self.paused_until[queue] = None if lasting is None else self.now() + lasting

    def resume(self, queue: str) -> bool:
        """Give out jobs again; says whether the queue was paused."""
        queue_name(queue)
        with self.changing:
            was_paused = queue in self.pauses(self.now())
            self.paused_until.pop(queue, None)
            self.changing.notify_all()
            return was_paused

    def paused(self) -> Mapping[str, float | None]:
        """The paused queues, each with the instant its pause ends by itself, or None."""
        with self.changing:
            return dict(self.pauses(self.now()))
