"""An app as far as jobs can see it: a context, sessions to remove, a sender of signals, jobs to rebuild."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from flask_jobs.envelope import Envelope
from flask_jobs.errors import UnknownJob
from flask_jobs.events import Events
from flask_jobs.executor import Attempt, Executor
from flask_jobs.job import Job
from flask_jobs.options import WorkerDefaults

from .values import reservation


class App:
    """Writes into `calls` what is called in which order. Jobs are known by the name in their envelope."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.teardown_errors: list[BaseException | None] = []
        self.jobs: dict[str, Callable[[], Job]] = {}
        self.on_enter: Callable[[], object] = lambda: None
        self.on_cleanup: Callable[[], object] = lambda: None
        self.on_teardown: Callable[[], object] = lambda: None
        self.events = Events(self, "main")
        self.executor = Executor(decode=self.decode, context=self.context, cleanup=self.cleanup, events=self.events)

    def decode(self, envelope: Envelope) -> Job:
        self.calls.append("decode")
        if envelope.name not in self.jobs:
            raise UnknownJob(f"No job is registered as {envelope.name!r}.")
        return self.jobs[envelope.name]()

    @contextmanager
    def context(self) -> Iterator[None]:
        self.on_enter()
        self.calls.append("enter")
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
        self.calls.append("teardown")
        self.teardown_errors.append(error)
        self.on_teardown()

    def cleanup(self) -> None:
        self.calls.append("cleanup")
        self.on_cleanup()

    def run(self, job: Job | Callable[[], Job], **given: Any) -> Attempt:
        """One attempt of the job."""
        self.jobs["demo"] = (lambda: job) if isinstance(job, Job) else job
        held = given.pop("held", None) or reservation()
        return self.executor.run(held, **{"defaults": WorkerDefaults(), **given})


def job(handle: Callable[..., object], **members: Any) -> Job:
    """A job with this body, which is given the job, and these attributes of its class."""
    return type("Demo", (Job,), {"handle": handle, **members})()
