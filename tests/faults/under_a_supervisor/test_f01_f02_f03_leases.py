"""Under a supervisor, the lease of a job waits for nobody's death and ends no job that still runs."""

from __future__ import annotations

import os
import signal

import psutil
import pytest

from flask_jobs.stored import State
from tests.faults.app import Brief, Gated
from tests.faults.hard_jobs import Hard
from tests.faults.workers import Site, wait_for


def test_f01_the_job_of_a_killed_worker_runs_again_without_waiting_for_its_lease(site: Site) -> None:
    site.connection["retry_after"] = 600
    worker = site.supervise("--processes", "2").started()
    (job_id,) = site.dispatch(Hard("sleep", bad=1))
    (first,) = wait_for(lambda: site.ledger("begin"))

    os.kill(first["pid"], signal.SIGKILL)
    wait_for(lambda: site.ledger("end"), limit=10)
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    assert [(line["job"], line["attempt"]) for line in site.ledger("begin")] == [(job_id, 1), (job_id, 2)]
    assert site.ledger("begin", attempt=2)[0]["pid"] != first["pid"]
    died, released = worker.lines("WARNING")
    assert died.endswith(f"was ended by signal 9 (SIGKILL); it was running [job:{job_id}] faults.hard.")
    assert f"WARNING supervisor [job:{job_id}] faults.hard (queue default, attempt 1) released" in released
    wait_for(lambda: len(worker.children) == 2)


@pytest.mark.slow
def test_f02_a_job_that_holds_the_interpreter_for_three_leases_keeps_its_lease(site: Site) -> None:
    site.connection["retry_after"] = 2
    (job_id,) = site.dispatch(Hard("hold", seconds=6.5))

    worker = site.supervise("--processes", "2")  # the other one would take what looks abandoned
    wait_for(lambda: site.ledger("end"), limit=60)
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    (begun,), (ended,) = site.ledger("begin"), site.ledger("end")
    assert (begun["job"], begun["attempt"]) == (job_id, 1)
    assert ended["at"] - begun["at"] > 2 * 2
    assert worker.lines("WARNING") == []


@pytest.mark.slow
def test_f03_a_worker_that_was_stopped_for_its_lease_is_ended_before_its_successor_begins(site: Site) -> None:
    site.connection["retry_after"] = 2
    (job_id,) = site.dispatch(Gated("one"))
    worker = site.supervise()
    (frozen,) = wait_for(lambda: site.ledger("begin"))

    os.kill(frozen["pid"], signal.SIGSTOP)
    wait_for(lambda: len(site.ledger("begin")) == 2)
    is_gone = not psutil.pid_exists(frozen["pid"])
    stored = site.stored(job_id)
    site.open_gate("one", 1)
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    assert is_gone
    assert [line["attempt"] for line in site.ledger("begin")] == [1, 1]
    assert stored is not None
    assert (stored.counters.interruptions, stored.counters.attempts) == (1, 1)
    assert len(site.ledger("end")) == 1
    assert [line for line in worker.lines("WARNING") if "could not be renewed in time" in line]


@pytest.mark.slow
def test_f03_a_whole_tree_that_stood_still_changes_nothing_says_so_once_and_goes_on(site: Site) -> None:
    site.connection["retry_after"] = 2
    (job_id,) = site.dispatch(Gated("one"))
    frozen = site.supervise()
    wait_for(lambda: site.ledger("begin"))
    frozen.send_all(signal.SIGSTOP)
    successor = site.supervise()
    wait_for(lambda: site.ledger("begin", attempt=2))

    site.open_gate("one", 1)
    frozen.send_all(signal.SIGCONT)
    wait_for(lambda: "settlement lost" in frozen.log)
    stored = site.stored(job_id)
    site.open_gate("one", 2)
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))
    successor.send(signal.SIGTERM)
    code = successor.ended()
    site.dispatch(Brief("next"))
    wait_for(lambda: site.ledger("end", label="next"))

    assert stored is not None
    assert (stored.state, stored.counters.attempts) == (State.RESERVED, 2)
    assert frozen.log.count("settlement lost") == 1
    assert "Traceback" not in frozen.log
    assert len(site.ledger("end", attempt=2)) == 1
    assert (frozen.is_alive, code) == (True, 0)
