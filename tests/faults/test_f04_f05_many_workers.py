"""Several workers on one file: each job starts once, and none before it is due."""

from __future__ import annotations

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from .app import Brief
from .workers import Site, wait_for


def memory_of(pid: int) -> float:
    """The resident memory of a process in megabytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4_096 / 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize("amount", [1_000, pytest.param(5_000, marks=pytest.mark.volume)])
def test_f04_four_workers_complete_many_short_jobs_once_each_and_leave_nothing(site: Site, amount: int) -> None:
    site.connection["retry_after"] = 5
    ids = site.dispatch(*[Brief("", 0.001)] * amount)

    workers = [site.work("--stop-when-empty") for _ in range(4)]
    codes = [worker.ended(100) for worker in workers]

    assert codes == [0] * 4
    assert sorted(line["job"] for line in site.ledger("end")) == sorted(ids)
    assert {line["attempt"] for line in site.ledger("begin")} == {1}
    assert len(site.ledger("begin")) == amount
    assert site.sizes() == (0, 0, 0, 0)
    assert [line for worker in workers for line in worker.lines("WARNING") + worker.lines("ERROR")] == []
    assert not [worker for worker in workers if "locked" in worker.log or "reclaimed" in worker.log]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory of other processes is read from /proc")
@pytest.mark.parametrize(("amount", "delay"), [(500, 3), pytest.param(2_000, 8, marks=pytest.mark.volume)])
def test_f05_many_delayed_jobs_are_held_by_nobody_and_start_once_when_they_are_due(
    site: Site, amount: int, delay: float
) -> None:
    site.connection["retry_after"] = 2
    workers = [worker.started() for worker in [site.work() for _ in range(3)]]
    before = [memory_of(worker.pid) for worker in workers]
    due = datetime.now(UTC) + timedelta(seconds=delay)
    ids = site.dispatch(*[Brief("late")] * amount, delay=due)
    dispatched = time.time()
    site.dispatch(Brief("now"))

    held, grown = set(), [0.0]
    while time.time() < due.timestamp() - 0.1:
        ready, _, reserved, failed = site.sizes()
        held.add((ready, reserved, failed) if site.ledger("end", label="now") else (0, 0, 0))
        grown = [memory_of(worker.pid) - memory for worker, memory in zip(workers, before, strict=True)]
        time.sleep(0.1)
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    (immediate,) = site.ledger("begin", label="now")
    assert immediate["at"] - dispatched < 2
    assert held == {(0, 0, 0)}
    assert max(grown) < 8
    starts = site.ledger("begin", label="late")
    assert Counter(line["job"] for line in starts) == Counter(ids)
    assert min(line["at"] for line in starts) >= due.timestamp()
    assert {line["attempt"] for line in starts} == {1}
