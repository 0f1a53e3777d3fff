"""The workers of one process: one in the main thread, or several in threads beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ..threads import start_deaf
from .alarm import Alarm, Cutter, can_alarm
from .handlers import Handlers
from .loop import Worker
from .post import Allowance, Post
from .settings import Stop, WorkerSettings
from .thread_alarm import ThreadAlarm

# How late a limit may be enforced in a thread, and a signal be passed on, in seconds.
_TICK = 0.05

MakeWorker = Callable[[WorkerSettings, Post, Cutter], Worker]


@dataclass(slots=True)
class _Member:
    worker: Worker
    alarm: ThreadAlarm
    thread: threading.Thread = field(init=False)
    stop: Stop | None = None
    error: BaseException | None = None

    def start(self, name: str) -> None:
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        start_deaf(self.thread)

    def _run(self) -> None:
        try:
            self.stop = self.worker.run()
        except BaseException as error:  # raised again where the process ends
            self.error = error


class Crew:
    """Runs as many workers as there are posts, and ends with them. Without SIGALRM, one alone has a thread as well.

    Limits on jobs hold for all of them together. The first that has a reason to end which concerns the process (its
    memory, a job that timed out, a restart) takes the others with it, each after its current job.
    """

    def __init__(self, make: MakeWorker, settings: WorkerSettings, posts: Sequence[Post]) -> None:
        self._settings = settings
        self._members: list[_Member] = []
        self._only: Worker | None = None
        self._is_hurried, self._hear = posts[0].is_hurried, posts[0].hear
        self._leaving: Stop | None = None
        posts = [replace(post, why_leave=self._why_leave(post.why_leave)) for post in posts]
        if len(posts) == 1 and can_alarm():
            self._only = make(settings, posts[0], Alarm())
            return
        apart = replace(settings, max_jobs=None, recycle_after=None)
        limits = [limit for limit in (settings.max_jobs, settings.recycle_after) if limit is not None]
        allowance = Allowance(min(limits, default=None))
        for post in posts:
            alarm = ThreadAlarm()
            post = replace(post, allowance=allowance)
            self._members.append(_Member(make(apart, post, alarm), alarm))

    @property
    def workers(self) -> Sequence[Worker]:
        """Its workers."""
        return [member.worker for member in self._members] if self._only is None else [self._only]

    def run(self, name: str) -> Stop:
        """Take jobs until there is a reason to stop, and return it."""
        if self._only is not None:
            return self._only.run()
        handlers = Handlers(self._heed, self._hurry, self._is_hurried)
        with handlers:
            for number, member in enumerate(self._members, 1):
                member.start(f"{name}-{number}")
            while any(member.thread.is_alive() for member in self._members):
                handlers.insist()
                time.sleep(_TICK)
                for member in self._members:
                    member.alarm.tick()
                self._take_along()
        return self._outcome()

    def _heed(self) -> None:
        self._stop()
        self._hear()

    def _stop(self) -> None:
        for member in self._members:
            member.worker.stop()

    def _hurry(self) -> None:
        for member in self._members:
            member.worker.hurry()

    def _take_along(self) -> None:
        """Let the others end, too, if one of them has had a reason that concerns all."""
        for member in self._members:
            if self._leaving is None and member.stop is not None and member.stop.concerns_all:
                self._leaving = member.stop
            if self._leaving is None and member.error is not None:
                self._stop()

    def _why_leave(self, own: Callable[[], Stop | None]) -> Callable[[], Stop | None]:
        def why() -> Stop | None:
            reason = self._leaving or self._worked_enough() or own()
            # An application that is larger than its limit from the start would otherwise never run a job.
            return None if reason is Stop.MEMORY and not self._has_worked() else reason

        return why

    def _has_worked(self) -> bool:
        return any(worker.jobs for worker in self.workers)

    def _worked_enough(self) -> Stop | None:
        settings = self._settings
        if settings.max_jobs is None and settings.recycle_after is None:
            return None
        jobs = sum(member.worker.jobs for member in self._members)
        if settings.max_jobs is not None and jobs >= settings.max_jobs:
            return Stop.MAX_JOBS
        if settings.recycle_after is not None and jobs >= settings.recycle_after:
            return Stop.RECYCLED
        return None

    def _outcome(self) -> Stop:
        for member in self._members:
            if member.error is not None:
                raise member.error
        stops = {member.stop for member in self._members if member.stop is not None}
        return next(stop for stop in _BY_WEIGHT if stop in stops)


# What the caller has to know of comes first.
_FIRST = (Stop.INTERRUPTED, Stop.STORE_AWAY, Stop.SIGNAL)
_BY_WEIGHT: tuple[Stop, ...] = (*_FIRST, *(stop for stop in Stop if stop not in _FIRST))
