"""A supervisor that is told to stop lets jobs end, and puts back uncharged what does not end in time."""

from __future__ import annotations

import signal
import time

import pytest

from flask_jobs.stored import State
from tests.faults.app import Brief, Gated, Shelling
from tests.faults.hard_jobs import Hard
from tests.faults.workers import Site, wait_for


@pytest.mark.alone
def test_f21_ctrl_c_lets_the_job_and_what_it_started_complete(site: Site) -> None:
    busy = site.supervise()
    idle = site.supervise("--queue", "idle", "--sleep", "60").started()
    site.dispatch(Shelling())
    wait_for(lambda: site.ledger("begin"))
    site.dispatch(Brief("next"))

    told = time.monotonic()
    idle.send(signal.SIGINT)
    idle_code, idle_took = idle.ended(), time.monotonic() - told
    busy.send(signal.SIGINT)

    assert busy.ended() == 0
    assert (idle_code, idle_took < 1) == (0, True)
    (begun,), (ended,) = site.ledger("begin"), site.ledger("end")
    assert ended["at"] - begun["at"] > 3
    assert site.sizes() == (1, 0, 0, 0)
    assert "Traceback" not in busy.log + idle.log
    assert [worker.log.count("Stopping: ") for worker in (busy, idle)] == [1, 0]
    assert busy.log.index("processed in") < busy.log.index("worker stops on database: it was told to stop")


@pytest.mark.parametrize("way", ["sleep", "swallow all"])
def test_f21_a_second_ctrl_c_puts_the_job_back_uncharged(site: Site, way: str) -> None:
    (job_id,) = site.dispatch(Hard(way))
    worker = site.supervise()
    wait_for(lambda: site.ledger("begin"))

    worker.send(signal.SIGINT)
    said = "Stopping: waiting up to 30 s for 1 running job; a second signal cuts it short.\n"
    wait_for(lambda: said in worker.log)
    still_there = worker.is_alive
    worker.send(signal.SIGINT)
    code = worker.ended(8)

    stored = site.stored(job_id)
    assert (still_there, code) == (True, 1)
    assert stored is not None
    assert (stored.state, stored.counters.attempts, stored.counters.interruptions) == (State.READY, 0, 1)
    assert site.sizes() == (1, 0, 0, 0)
    assert worker.log.count("Traceback") == 0
    assert site.ledger("end") == []
    (released,) = [line for line in worker.log.splitlines() if "released" in line]
    who = "worker-1" if way == "sleep" else "supervisor"
    assert f" INFO    {who} [job:{job_id}] faults.hard (queue default, attempt 1) released" in released


@pytest.mark.slow
def test_f22_five_stops_with_a_short_grace_cost_a_job_none_of_its_tries(site: Site) -> None:
    (job_id,) = site.dispatch(Gated("one"))
    for round_ in range(1, 6):
        worker = site.supervise("--tries", "2", "--grace", "1")
        wait_for(lambda wanted=round_: len(site.ledger("begin")) == wanted)
        worker.send(signal.SIGTERM)
        assert worker.ended(5) == 1
        assert site.sizes() == (1, 0, 0, 0)
    interrupted = site.stored(job_id)

    site.open_gate("one", 1)
    last = site.supervise("--tries", "2", "--stop-when-empty")

    assert last.ended() == 0
    assert interrupted is not None
    assert (interrupted.counters.attempts, interrupted.counters.interruptions) == (0, 5)
    assert {line["attempt"] for line in site.ledger("begin")} == {1}
    assert len(site.ledger("end")) == 1
    assert site.sizes() == (0, 0, 0, 0)
