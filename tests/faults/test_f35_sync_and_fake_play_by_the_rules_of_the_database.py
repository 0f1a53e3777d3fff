"""One scenario on every connection. What is not the same is written down here, and is documented."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import make_transient_to_detached

from flask_jobs import (
    Job,
    current_job,
    job_discarded,
    job_dispatched,
    job_failed,
    job_processed,
    job_processing,
    job_released,
)
from tests.apps import Base, Draft, Note, Order, Ship, Shop, Tidy, note
from tests.databases import MARIADB, POSTGRESQL, empty
from tests.servers import own_prefix, required_redis

SERVERS = {"postgresql": POSTGRESQL, "mariadb": MARIADB}
SIGNALS = (job_discarded, job_dispatched, job_failed, job_processed, job_processing, job_released)


class Write(Job):
    """Writes a row, and fails after it in its first attempts."""

    backoff = 0

    def __init__(self, state: str, failures: int = 0) -> None:
        self.state = state
        self.failures = failures

    def handle(self) -> None:
        note(f"{self.state} {current_job.attempt}")
        order = Order(state=f"{self.state} {current_job.attempt}")
        session = SESSIONS[-1]
        session.add(order)
        session.flush()
        if current_job.attempt <= self.failures:
            raise ValueError(self.state)
        session.commit()

    def failed(self, error: BaseException) -> None:
        note(f"{self.state} failed with {type(error).__name__}")


class Again(Job):
    """Puts itself back once."""

    def handle(self) -> None:
        note(f"again {current_job.attempt}")
        if current_job.attempt == 1:
            current_job.release()


class Alone(Job):
    """One at a time for each word."""

    unique = True

    def __init__(self, word: str) -> None:
        self.word = word

    def unique_id(self) -> str:
        return self.word

    def handle(self) -> None:
        note(f"alone {self.word}")


SESSIONS: list[Any] = []


@dataclass(frozen=True)
class Send:
    """Dispatches to one connection."""

    shop: Shop
    connection: str

    def __call__(self, *jobs: Job) -> None:
        self.shop.jobs.dispatch_many(jobs, connection=self.connection)

    def chain(self, jobs: Sequence[Job], **options: Any) -> None:
        self.shop.jobs.chain(jobs, connection=self.connection, **options)

    def batch(self, jobs: Sequence[Job], **options: Any) -> None:
        self.shop.jobs.batch(jobs, connection=self.connection, **options)


@dataclass(frozen=True)
class Account:
    """What one step has left behind."""

    ledger: tuple[str, ...]
    signals: tuple[tuple[str, str, int], ...]
    rows: tuple[str, ...]
    error: str | None

    def but_for_the_error(self) -> tuple[object, ...]:
        return self.ledger, self.signals, self.rows


def detached(cls: type[Any]) -> Any:
    """A row that is gone, as a session once loaded it that does not know."""
    row = cls(id=4_711)
    make_transient_to_detached(row)
    return row


def commit(shop: Shop, send: Send) -> None:
    shop.session.add(Order(state="route"))
    send(Write("first"), Write("second"))
    shop.session.commit()


def rollback(shop: Shop, send: Send) -> None:
    shop.session.add(Order(state="route"))
    send(Write("first"), Write("second"))
    shop.session.rollback()


def failure(shop: Shop, send: Send) -> None:
    job = Write("bad", failures=1)
    job.max_attempts = 1
    send(Write("before"), job, Write("behind"))


def failure_after_commit(shop: Shop, send: Send) -> None:
    job = Write("bad", failures=1)
    job.max_attempts = 1
    shop.session.add(Order(state="route"))
    send(job, Write("behind"))
    shop.session.commit()


def missing(shop: Shop, send: Send) -> None:
    send(Ship(detached(Order)))


def missing_quietly(shop: Shop, send: Send) -> None:
    send(Tidy(detached(Draft)))


def model(shop: Shop, send: Send) -> None:
    send(Ship(shop.add_order("fresh")))


def retries(shop: Shop, send: Send) -> None:
    send(Write("flaky", failures=2))


def exhausted(shop: Shop, send: Send) -> None:
    send(Write("hopeless", failures=9))


def release(shop: Shop, send: Send) -> None:
    send(Again())


def chain(shop: Shop, send: Send) -> None:
    send.chain([Write("1"), Write("2"), once(Write("3", failures=1)), Write("4")], catch=Note("sorry"))


def chain_to_the_end(shop: Shop, send: Send) -> None:
    shop.session.add(Order(state="route"))
    send.chain([Write("1"), Ship(shop.add_order("fresh")), Note("3")], catch=Note("sorry"))
    shop.session.commit()


def batch(shop: Shop, send: Send) -> None:
    members = [Write("1"), once(Write("2", failures=1)), Write("3"), Write("4"), Write("5")]
    send.batch(members, then=Note("then"), catch=Note("catch"), finally_=Note("finally"))


def batch_with_failures(shop: Shop, send: Send) -> None:
    members = [Write("1"), once(Write("2", failures=1)), Write("3"), Tidy(detached(Draft)), Write("5")]
    send.batch(members, allow_failures=True, then=Note("then"), catch=Note("catch"), finally_=Note("finally"))


def unique(shop: Shop, send: Send) -> None:
    send(Alone("a"), Alone("a"), Alone("b"))


def once(job: Write) -> Write:
    """The same, with a single attempt."""
    job.max_attempts = 1
    return job


def note_only(shop: Shop, send: Send) -> None:
    send(Note("child"))


SCENARIO = (
    commit,
    rollback,
    failure,
    failure_after_commit,
    missing,
    missing_quietly,
    model,
    retries,
    exhausted,
    release,
    note_only,
    chain,
    chain_to_the_end,
    batch,
    batch_with_failures,
    unique,
)
ERRORS = {
    "failure": "ValueError",
    "failure_after_commit": "ValueError",
    "missing": "ModelNotFound",
    "retries": "ValueError",
    "exhausted": "ValueError",
    "chain": "ValueError",
    "batch": "ValueError",
    "batch_with_failures": "ValueError",
}
"""Steps whose error reaches the caller of a sync dispatch. Nowhere else does one."""

NOT_REPEATED = {
    "retries": (("flaky 1", "flaky failed with ValueError"), ("job-dispatched", "job-processing", "job-failed")),
    "exhausted": (
        ("hopeless 1", "hopeless failed with ValueError"),
        ("job-dispatched", "job-processing", "job-failed"),
    ),
    "release": (("again 1",), ("job-dispatched", "job-processing", "job-released")),
}
"""Steps in which a job would be tried again, and what sync does instead: it runs each job once."""


def play(shop: Shop, connection: str) -> Mapping[str, Account]:
    """Each step of the scenario on a connection, and what it left behind."""
    for name, cls in {"write": Write, "again": Again, "alone": Alone}.items():
        shop.jobs.register(name)(cls)
    return {step.__name__: account(shop, connection, step) for step in SCENARIO}


def account(shop: Shop, connection: str, step: Callable[..., None]) -> Account:
    heard: list[tuple[str, str, int]] = []
    error: str | None = None
    before = len(shop.noted), len(rows(shop))
    with ExitStack() as stack:
        for signal in SIGNALS:
            stack.enter_context(signal.connected_to(hearing(heard, signal.name), shop.app))
        stack.enter_context(shop.context())
        SESSIONS.append(shop.session)
        stack.callback(SESSIONS.pop)
        queue = stack.enter_context(shop.jobs.fake()) if connection == "fake" else None
        target = "database" if connection == "fake" else connection
        try:
            step(shop, Send(shop, target))
        except Exception as raised:  # it is part of the account
            error = type(raised).__name__
        if queue is not None:
            queue.drain()
        elif connection != "sync":
            shop.work(connection)
    return Account(tuple(shop.noted[before[0] :]), tuple(heard), tuple(rows(shop)[before[1] :]), error)


def hearing(heard: list[tuple[str, str, int]], name: str) -> Callable[..., None]:
    return lambda sender, **facts: heard.append((name, facts["job_name"], facts["attempt"]))


def rows(shop: Shop) -> list[str]:
    with shop.engine.connect() as connection:
        return list(connection.execute(sa.text("SELECT state FROM orders ORDER BY id")).scalars())


@pytest.fixture
def accounts(
    open_shop: Callable[..., Shop], request: pytest.FixtureRequest
) -> Iterator[Callable[[str], Mapping[str, Account]]]:
    with ExitStack() as stack:

        def of(place: str) -> Mapping[str, Account]:
            if place in SERVERS:
                url = request.getfixturevalue("databases").url(SERVERS[place]).render_as_string(False)
                shop = open_shop(url=url)
                stack.callback(Base.metadata.drop_all, shop.engine)
                shop.driver("database").prepare()
                empty(shop.engine)
                return play(shop, "database")
            if place == "redis":
                prefix = stack.enter_context(own_prefix(required_redis()))
                return play(open_shop(JOBS_CONNECTIONS={"redis": {"url": required_redis(), "prefix": prefix}}), "redis")
            return play(open_shop(), place)

        yield of


def test_f35_the_database_itself_does_what_it_should(accounts: Callable[[str], Mapping[str, Account]]) -> None:
    played = accounts("database")

    assert played["commit"].ledger == ("first 1", "second 1")
    assert played["commit"].rows == ("route", "first 1", "second 1")
    assert played["rollback"].rows == played["rollback"].ledger == ()
    assert played["failure"].ledger == ("before 1", "bad 1", "bad failed with ValueError", "behind 1")
    assert played["failure"].rows == ("before 1", "behind 1")
    assert played["missing"].signals == (("job-dispatched", "ship", 0), ("job-failed", "ship", 1))
    assert played["missing_quietly"].signals == (("job-dispatched", "tidy", 0), ("job-processed", "tidy", 1))
    assert played["model"].ledger == ("ship fresh",)
    assert played["retries"].ledger == ("flaky 1", "flaky 2", "flaky 3")
    assert played["exhausted"].ledger[-1] == "hopeless failed with ValueError"
    assert played["release"].ledger == ("again 1", "again 2")
    assert played["chain"].ledger == ("1 1", "2 1", "3 1", "3 failed with ValueError", "sorry")
    assert played["chain"].rows == ("1 1", "2 1")
    assert played["chain_to_the_end"].ledger == ("1 1", "ship fresh", "3")
    assert played["batch"].ledger == ("1 1", "2 1", "2 failed with ValueError", "catch", "finally")
    assert played["batch_with_failures"].rows == ("1 1", "3 1", "5 1")
    assert played["batch_with_failures"].ledger[-2:] == ("catch", "finally")
    assert played["unique"].ledger == ("alone a", "alone b")
    assert {step.error for step in played.values()} == {None}


@pytest.mark.parametrize("place", ["redis", "postgresql", "mariadb"])
def test_f35_every_store_does_the_same_in_the_same_order(
    accounts: Callable[[str], Mapping[str, Account]], place: str
) -> None:
    elsewhere, here = accounts(place), accounts("database")

    for name, step in here.items():
        assert elsewhere[name] == step, name


def test_f35_the_fake_drained_does_the_same(accounts: Callable[[str], Mapping[str, Account]]) -> None:
    assert accounts("fake") == accounts("database")


def test_f35_sync_does_the_same_but_for_errors_and_repeats(accounts: Callable[[str], Mapping[str, Account]]) -> None:
    sync, database = accounts("sync"), accounts("database")

    assert {name: step.error for name, step in sync.items() if step.error} == ERRORS
    for name, step in sync.items():
        if name in NOT_REPEATED:
            ledger, signals = NOT_REPEATED[name]
            assert (step.ledger, tuple(signal for signal, *_ in step.signals)) == (ledger, signals)
        else:
            assert step.but_for_the_error() == database[name].but_for_the_error(), name
