from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from flask_jobs import Job, current_job
from tests.apps import Shop, note


class Step(Job):
    """Writes its word, and does what it was told: fails so many times, or ends itself in some other way."""

    backoff = 0
    max_attempts = 1

    def __init__(self, word: str, does: str = "", failures: int = 0) -> None:
        self.word = word
        self.does = does
        self.failures = failures

    def handle(self) -> None:
        note(self.word)
        if current_job.attempt <= self.failures:
            raise ValueError(self.word)
        if self.does == "fail":
            raise ValueError(self.word)
        if self.does == "delete":
            current_job.delete()
        if self.does == "release" and current_job.attempt < 3:
            current_job.release()


class Once(Job):
    """One at a time for each word."""

    unique = True
    max_attempts = 1

    def __init__(self, word: str, does: str = "") -> None:
        self.word = word
        self.does = does

    def unique_id(self) -> str:
        return self.word

    def handle(self) -> None:
        note(self.word)
        if self.does == "fail":
            raise ValueError(self.word)


class UntilRunning(Once):
    """Its successor may be dispatched as soon as it runs."""

    unique = "until_processing"


JOBS = {"step": Step, "once": Once, "until-running": UntilRunning}

QUEUED = ("fake", "database")


class Stage:
    """A shop whose jobs go to one kind of connection, and what runs them there."""

    def __init__(self, shop: Shop, kind: str, enter: Callable[[Any], Any]) -> None:
        self.shop = shop
        self.kind = kind
        self.connection = "sync" if kind == "sync" else "database"
        self.queue = enter(shop.jobs.fake()) if kind == "fake" else None
        for name, cls in JOBS.items():
            shop.jobs.register(name)(cls)

    @property
    def driver(self) -> Any:
        return self.shop.jobs.driver(self.connection)

    @property
    def noted(self) -> list[str]:
        return self.shop.noted

    def dispatch(self, job: Job, **options: Any) -> Any:
        return self._called(self.shop.jobs.dispatch, job, **options)

    def chain(self, jobs: Iterable[Job], **options: Any) -> Any:
        return self._called(self.shop.jobs.chain, jobs, **options)

    def batch(self, jobs: Iterable[Job], **options: Any) -> Any:
        return self._called(self.shop.jobs.batch, jobs, **options)

    def work(self) -> None:
        """Run what is due, on queues default and mail, until nothing is."""
        if self.queue is not None:
            self.queue.drain()
        elif self.kind == "database":
            self.shop.work(queues=("default", "mail"))

    def _called(self, call: Callable[..., Any], what: Any, **options: Any) -> Any:
        try:
            return call(what, connection=self.connection, **options)
        except ValueError:  # sync hands a job's error to whoever dispatched it
            assert self.kind == "sync"
            return None


@pytest.fixture(params=["sync", *QUEUED])
def stage(request: pytest.FixtureRequest, jobs_shop: Shop) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(jobs_shop, request.param, stack.enter_context)


@pytest.fixture(params=QUEUED)
def queued(request: pytest.FixtureRequest, jobs_shop: Shop) -> Iterator[Stage]:
    """Only the connections on which jobs wait for a worker."""
    with ExitStack() as stack:
        yield Stage(jobs_shop, request.param, stack.enter_context)
