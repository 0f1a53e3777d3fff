"""A pool keeps its size whatever ends its workers, and says with its exit code how it went."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from flask_jobs.envelope import Hook
from tests.faults.app import Brief, Gated
from tests.faults.hard_jobs import Hard
from tests.faults.workers import Site, Worker, wait_for


def zombies(worker: Worker) -> list[int]:
    children = psutil.Process(worker.pid).children()
    return [child.pid for child in children if child.status() == psutil.STATUS_ZOMBIE]


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.volume)])
def test_f18_a_pool_outlives_its_workers_and_they_do_not_outlive_it(site: Site, kills: int) -> None:
    site.connection["retry_after"] = 600
    worker = site.supervise("--processes", "3").started()
    flowing = [job_id for _ in range(kills) for job_id in site.dispatch(*(Brief("flow", 0.05) for _ in range(20)))]
    for _ in range(kills):
        before = wait_for(lambda: len(worker.children) == 3 and worker.children)
        seen = len(site.ledger("begin"))
        os.kill(before[0], signal.SIGKILL)
        wait_for(lambda gone=before[0]: gone not in worker.children and len(worker.children) == 3, limit=10)
        wait_for(lambda seen=seen: len(site.ledger("begin")) > seen or len(site.ledger("end")) >= len(flowing))
    exiting = site.dispatch(Hard("sys.exit", tries=1), Hard("os._exit", tries=1))
    wait_for(lambda: {failed.envelope.id for failed in site.failed()} == set(exiting))
    wait_for(lambda: site.sizes()[:3] == (0, 0, 0), limit=60)
    wait_for(lambda: {failed.hook for failed in site.failed()} == {Hook.RAN})
    wait_for(lambda: len(worker.children) == 3)
    left = zombies(worker)

    errors = {failed.envelope.id: (failed.error.type, failed.error.message) for failed in site.failed()}
    assert {line["job"] for line in site.ledger("end", label="flow")} == set(flowing)
    assert len(site.ledger("end", label="flow")) == len(flowing)
    assert errors[exiting[0]][0].endswith("SystemExit")
    assert errors[exiting[1]][0].endswith("WorkerDied")
    assert "exited with code 3" in errors[exiting[1]][1]
    assert sorted(line["way"] for line in site.ledger("hook")) == ["os._exit", "sys.exit"]
    assert left == []

    (last,) = site.dispatch(Gated("last"))
    wait_for(lambda: site.ledger("begin", label="last"))
    orphans = worker.children
    worker.process.kill()
    worker.ended()
    site.dispatch(Brief("nobody"))
    wait_for(lambda: sum(psutil.pid_exists(pid) for pid in orphans) == 1, limit=10)
    site.open_gate("last", 1)
    wait_for(lambda: not any(psutil.pid_exists(pid) for pid in orphans), limit=10)

    assert [line["job"] for line in site.ledger("end", label="last")] == [last]
    assert site.sizes() == (1, 0, 0, 2)
    assert site.ledger("begin", label="nobody") == []


def test_f18_an_empty_queue_is_a_clean_end(site: Site) -> None:
    site.dispatch(Brief("one"))

    worker = site.supervise("--stop-when-empty")

    assert worker.ended() == 0
    assert len(site.ledger("end")) == 1
    assert worker.lines("WARNING") == worker.lines("ERROR") == []


def test_f18_workers_that_cannot_start_are_reported_once_and_end_the_command(site: Site) -> None:
    worker = site.supervise("--processes", "3", FAULTS_BROKEN="yes")

    assert worker.ended() == 1
    assert worker.log.count("Traceback (most recent call last)") == 1
    assert worker.log.count("RuntimeError: no worker can have this app") == 1
    assert len([line for line in worker.lines("ERROR") if "could not start" in line]) == 1
