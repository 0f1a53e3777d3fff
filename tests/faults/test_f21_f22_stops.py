"""A worker that is told to stop lets its job end; told twice, it puts the job back as if it had not begun."""

from __future__ import annotations

import signal
import time

import pytest

from flask_jobs.stored import State

from .app import Brief, Gated, Shelling
from .workers import Site, wait_for

pytestmark = pytest.mark.alone


def test_f21_ctrl_c_reaches_the_whole_group_and_the_job_completes(site: Site) -> None:
    busy = site.work()
    idle = site.work("--queue", "idle", "--sleep", "60").started()
    site.dispatch(Shelling())
    wait_for(lambda: site.ledger("begin"))
    site.dispatch(Brief("next"))
    time.sleep(0.2)  # the program that the job runs is to be there

    told = time.monotonic()
    idle.send(signal.SIGINT)
    idle_code, idle_took = idle.ended(), time.monotonic() - told
    busy.send(signal.SIGINT)

    assert busy.ended() == 0
    assert (idle_code, idle_took < 1) == (0, True)
    assert len(site.ledger("begin")) == len(site.ledger("end")) == 1
    assert site.sizes() == (1, 0, 0, 0)
    assert "Traceback" not in busy.log + idle.log


def test_f21_a_second_ctrl_c_puts_the_job_back_at_once_and_uncharged(site: Site) -> None:
    (job_id,) = site.dispatch(Gated("one"))
    worker = site.work()
    wait_for(lambda: site.ledger("begin"))

    worker.send(signal.SIGINT)
    wait_for(lambda: "Stopping: waiting for 1 running job; a second signal cuts it short.\n" in worker.log)
    time.sleep(1)
    still_there = worker.is_alive
    worker.send(signal.SIGINT)
    code = worker.ended(5)

    stored = site.stored(job_id)
    assert still_there
    assert code == 1
    assert stored is not None
    assert (stored.state, stored.counters.attempts, stored.counters.interruptions) == (State.READY, 0, 1)
    assert site.sizes() == (1, 0, 0, 0)
    assert worker.log.count("Traceback") == 0


@pytest.mark.slow
def test_f22_five_interruptions_cost_a_job_none_of_its_two_tries(site: Site) -> None:
    (job_id,) = site.dispatch(Gated("one"))
    for round_ in range(1, 6):
        worker = site.work("--tries", "2")
        wait_for(lambda wanted=round_: len(site.ledger("begin")) == wanted)
        worker.send(signal.SIGTERM)
        worker.send(signal.SIGQUIT)
        assert worker.ended(5) == 1
        assert site.sizes() == (1, 0, 0, 0)
    interrupted = site.stored(job_id)

    site.open_gate("one", 1)
    last = site.work("--tries", "2", "--stop-when-empty")

    assert last.ended() == 0
    assert interrupted is not None
    assert (interrupted.counters.attempts, interrupted.counters.interruptions) == (0, 5)
    assert {line["attempt"] for line in site.ledger("begin")} == {1}
    assert len(site.ledger("end")) == 1
    assert site.sizes() == (0, 0, 0, 0)


def test_f22_an_idle_worker_leaves_within_a_second(site: Site) -> None:
    worker = site.work("--sleep", "60").started()
    told = time.monotonic()

    worker.send(signal.SIGTERM)

    assert worker.ended(5) == 0
    assert time.monotonic() - told < 1
    assert "Stopping" not in worker.log


def test_each_job_in_the_threads_of_a_worker_is_waited_for(site: Site) -> None:
    site.dispatch(Gated("one"), Gated("two"))
    worker = site.work("--threads", "3")
    wait_for(lambda: len(site.ledger("begin")) == 2)

    worker.send(signal.SIGTERM)
    wait_for(lambda: "Stopping: waiting for 2 running jobs; a second signal cuts them short.\n" in worker.log)
    for label in ("one", "two"):
        site.open_gate(label, 1)

    assert worker.ended() == 0
    assert worker.log.count("Stopping") == 1
