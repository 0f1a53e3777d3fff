"""One scenario on every connection. What is not the same is written down here, and is documented."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
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
from tests.apps import Draft, Note, Order, Ship, Shop, Tidy, note

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


SESSIONS: list[Any] = []


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


def commit(shop: Shop, send: Callable[..., None]) -> None:
    shop.session.add(Order(state="route"))
    send(Write("first"), Write("second"))
    shop.session.commit()


def rollback(shop: Shop, send: Callable[..., None]) -> None:
    shop.session.add(Order(state="route"))
    send(Write("first"), Write("second"))
    shop.session.rollback()


def failure(shop: Shop, send: Callable[..., None]) -> None:
    job = Write("bad", failures=1)
    job.max_attempts = 1
    send(Write("before"), job, Write("behind"))


def failure_after_commit(shop: Shop, send: Callable[..., None]) -> None:
    job = Write("bad", failures=1)
    job.max_attempts = 1
    shop.session.add(Order(state="route"))
    send(job, Write("behind"))
    shop.session.commit()


def missing(shop: Shop, send: Callable[..., None]) -> None:
    send(Ship(detached(Order)))


def missing_quietly(shop: Shop, send: Callable[..., None]) -> None:
    send(Tidy(detached(Draft)))


def model(shop: Shop, send: Callable[..., None]) -> None:
    send(Ship(shop.add_order("fresh")))


def retries(shop: Shop, send: Callable[..., None]) -> None:
    send(Write("flaky", failures=2))


def exhausted(shop: Shop, send: Callable[..., None]) -> None:
    send(Write("hopeless", failures=9))


def release(shop: Shop, send: Callable[..., None]) -> None:
    send(Again())


def note_only(shop: Shop, send: Callable[..., None]) -> None:
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
)
ERRORS = {
    "failure": "ValueError",
    "failure_after_commit": "ValueError",
    "missing": "ModelNotFound",
    "retries": "ValueError",
    "exhausted": "ValueError",
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
    for name, cls in {"write": Write, "again": Again}.items():
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
            step(shop, lambda *jobs: shop.jobs.dispatch_many(jobs, connection=target))
        except Exception as raised:  # it is part of the account
            error = type(raised).__name__
        if queue is not None:
            queue.drain()
        elif connection == "database":
            shop.work()
    return Account(tuple(shop.noted[before[0] :]), tuple(heard), tuple(rows(shop)[before[1] :]), error)


def hearing(heard: list[tuple[str, str, int]], name: str) -> Callable[..., None]:
    return lambda sender, **facts: heard.append((name, facts["job_name"], facts["attempt"]))


def rows(shop: Shop) -> list[str]:
    return [row[0] for row in shop.rows("SELECT state FROM orders ORDER BY id")]


@pytest.fixture
def accounts(open_shop: Callable[..., Shop]) -> Callable[[str], Mapping[str, Account]]:
    return lambda connection: play(open_shop(), connection)


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
    assert {step.error for step in played.values()} == {None}


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
