from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobs import Job, current_job
from tests.apps import Base, Shop, note
from tests.databases import MARIADB, POSTGRESQL, empty
from tests.servers import own_prefix, required_redis


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

SERVERS = {"postgresql": POSTGRESQL, "mariadb": MARIADB}
QUEUED = ("fake", "database", "redis", *SERVERS)


class Stage:
    """A shop whose jobs go to one kind of connection, and what runs them there."""

    def __init__(self, shop: Shop, kind: str, enter: Callable[[Any], Any]) -> None:
        self.shop = shop
        self.kind = kind
        self.connection = kind if kind in ("sync", "redis") else "database"
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
        elif self.kind != "sync":
            self.shop.work(self.connection, queues=("default", "mail"))

    def _called(self, call: Callable[..., Any], what: Any, **options: Any) -> Any:
        try:
            return call(what, connection=self.connection, **options)
        except ValueError:  # sync hands a job's error to whoever dispatched it
            assert self.kind == "sync"
            return None


def open_stage(request: pytest.FixtureRequest, stack: ExitStack) -> Stage:
    """The stage of the kind that the fixture's parameter names, within an app context."""
    kind, open_shop = request.param, request.getfixturevalue("open_shop")
    if kind in SERVERS:
        shop = open_shop(url=request.getfixturevalue("databases").url(SERVERS[kind]).render_as_string(False))
    elif kind == "redis":
        url = required_redis()
        prefix = stack.enter_context(own_prefix(url))
        shop = open_shop(JOBS_CONNECTIONS={"redis": {"url": url, "prefix": prefix}})
    else:
        shop = open_shop()
    stack.enter_context(shop.context())
    stage = Stage(shop, kind, stack.enter_context)
    if kind in SERVERS:
        stage.driver.prepare()
        stack.callback(_empty, shop)
    return stage


def _empty(shop: Shop) -> None:
    shop.session.rollback()
    empty(shop.engine)
    with shop.engine.begin() as connection:
        for table in Base.metadata.sorted_tables:
            connection.execute(sa.delete(table))


@pytest.fixture(params=["sync", *QUEUED])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield open_stage(request, stack)


@pytest.fixture(params=QUEUED)
def queued(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Only the connections on which jobs wait for a worker."""
    with ExitStack() as stack:
        yield open_stage(request, stack)
