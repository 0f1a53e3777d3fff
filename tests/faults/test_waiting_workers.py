"""An idle worker hears of a job from another process at once, and costs next to nothing. The bounds are generous."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import pytest

from .app import Brief
from .workers import Site, wait_for

pytestmark = pytest.mark.alone


def cpu_of(pid: int) -> float:
    """The seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_idle_worker_picks_up_a_job_of_another_process_without_waiting_for_its_sleep(site: Site) -> None:
    site.work("--sleep", "60").started()

    late = []
    for number in range(15):
        dispatched = time.time()
        site.dispatch(Brief(str(number)))
        (begun,) = wait_for(lambda number=number: site.ledger("begin", label=str(number)))  # type: ignore[misc]
        late.append(begun["at"] - dispatched)

    assert statistics.median(late) < 0.2, late


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the CPU time of another process is read from /proc")
def test_an_idle_worker_uses_next_to_no_cpu(site: Site) -> None:
    worker = site.work("--sleep", "1").started()
    time.sleep(0.5)  # what the start leaves to be done
    before, began = cpu_of(worker.pid), time.monotonic()

    time.sleep(3)

    share = (cpu_of(worker.pid) - before) / (time.monotonic() - began)
    assert share < 0.05
    assert worker.is_alive
