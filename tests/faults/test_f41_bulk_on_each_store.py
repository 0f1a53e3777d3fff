"""Many jobs in one call or command: what is kept for each is small, steps are bounded, and others go on meanwhile."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from flask_jobs.driver import PORTION
from flask_jobs.drivers.database import DatabaseDriver, metadata
from flask_jobs.envelope import Ack, Envelope
from flask_jobs.errors import StoreRefused
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push
from flask_jobs.testing.contract.support import fail, pop, roomy

from .app import Brief, jobs
from .workers import Site

pytestmark = pytest.mark.slow

AMOUNTS = [2_500, pytest.param(100_000, marks=[pytest.mark.volume, pytest.mark.timeout(1_800)])]
FAILED = metadata.tables["flask_jobs_failed"]

# Tracing makes it several times as slow, and one transaction must end before its connection is given up.
TRACED = 20_000

# What a portion on its way to or from a store takes, in bytes, and the longest that anybody waits for one, in seconds.
OF_A_PORTION = 6_000_000
BEARABLE = 5.0


@contextmanager
def memory() -> Iterator[SimpleNamespace]:
    """How many bytes were in use at most beyond what was in use before."""
    grown = SimpleNamespace(bytes=0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield grown
        grown.bytes = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@contextmanager
def neighbour(driver: Any) -> Iterator[SimpleNamespace]:
    """Somebody who pushes, takes and settles jobs of another queue all the time, and how long each turn took."""
    seen = SimpleNamespace(turns=[], error=None)
    over = threading.Event()

    def turn() -> None:
        driver.push([Push(Envelope(new_id(), "faults.brief", "others", "{}"))])
        settled = driver.settle([Ack(one) for one in pop(driver, "others").reservations])
        assert settled.stale == ()

    def go_on() -> None:
        while not over.is_set() and seen.error is None:
            began = time.monotonic()
            try:
                turn()
            except StoreRefused:  # SQLite gives its lock to whoever asks at the right instant; a worker asks again, too
                continue
            except Exception as error:
                seen.error = error
            seen.turns.append(time.monotonic() - began)
            time.sleep(0.01)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
    assert seen.error is None


def fill_the_failed(driver: Any, amount: int) -> None:
    """So many failed jobs; in tables one fails, and is copied."""
    each = 1 if isinstance(driver, DatabaseDriver) else amount
    for start in range(0, each, PORTION):
        ids = [new_id() for _ in range(min(PORTION, each - start))]
        driver.push([Push(Envelope(id_, "faults.brief", "default", "x" * 200)) for id_ in ids])
    while reservations := pop(driver, room=roomy(500, names=["faults.brief"])).reservations:
        driver.settle([fail(reservation) for reservation in reservations])
    if isinstance(driver, DatabaseDriver):
        with driver.engine.begin() as connection:
            row = dict(connection.execute(sa.select(FAILED)).mappings().one())
            del row["seq"]
            for start in range(1, amount, PORTION):
                copies = [{**row, "id": new_id()} for _ in range(min(PORTION, amount - start))]
                connection.execute(sa.insert(FAILED), copies)
    assert driver.count_failed() == amount


@pytest.mark.parametrize("amount", AMOUNTS)
def test_f41_of_many_jobs_of_a_generator_little_is_kept_and_a_queue_of_them_is_cleared_in_portions(
    site_on_each_store: Site, amount: int
) -> None:
    site = site_on_each_store
    with site.driver() as driver:
        with memory() as dispatching:
            answers = jobs.dispatch_many(Brief(f"{number:08}") for number in range(min(amount, TRACED)))
        answers += jobs.dispatch_many(Brief(f"{number:08}") for number in range(TRACED, amount))
        sizes = site.sizes()
        with neighbour(driver) as other, memory() as clearing:
            printed = site.command("clear", "--force")

        assert (len({answer.id for answer in answers}), sizes) == (amount, (amount, 0, 0, 0))
        assert dispatching.bytes < OF_A_PORTION + 1_000 * min(amount, TRACED)
        assert f"{amount:,} jobs deleted" in printed
        assert driver.size("default").ready == 0
        assert clearing.bytes < OF_A_PORTION
        assert max(other.turns) < BEARABLE


@pytest.mark.parametrize("amount", AMOUNTS)
def test_f41_all_failed_jobs_are_retried_in_portions(site_on_each_store: Site, amount: int) -> None:
    site = site_on_each_store
    with site.driver() as driver:
        fill_the_failed(driver, amount)

        with neighbour(driver) as other, memory() as retrying:
            printed = site.command("retry", "all")

        assert f"{amount:,} retried" in printed
        assert site.sizes() == (amount, 0, 0, 0)
        assert retrying.bytes < OF_A_PORTION + 4 * len(printed)  # what it prints is kept in this process
        assert max(other.turns) < BEARABLE


@pytest.mark.parametrize("amount", AMOUNTS)
@pytest.mark.parametrize("command", ["flush", "prune"])
def test_f41_failed_jobs_are_deleted_in_portions(site_on_each_store: Site, command: str, amount: int) -> None:
    site = site_on_each_store
    age = ["--hours", "0"] if command == "prune" else []
    with site.driver() as driver:
        fill_the_failed(driver, amount)

        with neighbour(driver) as other, memory() as deleting:
            site.command(command, *age, "--force")

        assert driver.count_failed() == 0
        assert deleting.bytes < OF_A_PORTION
        assert max(other.turns) < BEARABLE
