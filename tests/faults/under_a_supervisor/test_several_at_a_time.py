"""Short jobs are taken several at a time: none waits behind a long one, and none is rerun or charged for another."""

from __future__ import annotations

import os
import signal

import pytest

from flask_jobs.envelope import Counters
from tests.faults.hard_jobs import Hard, SlowHook
from tests.faults.workers import Site, Worker, wait_for


def quick(amount: int) -> list[Hard]:
    return [Hard("sleep", bad=0) for _ in range(amount)]


def warm(site: Site, *arguments: str) -> Worker:
    """A worker that knows how little time these jobs take."""
    worker = site.supervise(*arguments).started()
    site.dispatch(*quick(3))
    wait_for(lambda: site.sizes() == (0, 0, 0, 0) and len(site.ledger("end")) == 3)
    return worker


def test_f01_a_worker_that_dies_amid_several_reruns_none_that_ended_and_charges_none_that_waits(
    site_on_each_store: Site,
) -> None:
    site = site_on_each_store
    site.connection["retry_after"] = 600
    warm(site)

    ids = site.dispatch(*quick(2), Hard("die", tries=2), *quick(3))
    deadly = ids.pop(2)
    wait_for(lambda: site.sizes() == (0, 0, 0, 1))

    for job_id in ids:
        assert [line["attempt"] for line in site.ledger("begin", job=job_id)] == [1]
        assert len(site.ledger("end", job=job_id)) == 1
    assert [line["attempt"] for line in site.ledger("begin", job=deadly)] == [1, 2]
    (failed,) = site.failed()
    assert "WorkerDied" in failed.error.type
    assert failed.counters == Counters(attempts=2, errors=failed.counters.errors)


def test_what_was_taken_along_with_a_long_job_is_run_by_others_while_it_runs(site_on_each_store: Site) -> None:
    site = site_on_each_store
    site.connection["retry_after"] = 600
    worker = warm(site)
    ids = site.dispatch(*quick(2), Hard("sleep", seconds=600, bad=1), *quick(3))
    (begun,) = wait_for(lambda: site.ledger("begin", job=ids[2]))

    # What had ended is settled, and what waits is free, though the one worker there is runs on.
    wait_for(lambda: site.sizes() == (3, 0, 1, 0))
    other = site.supervise()
    wait_for(lambda: site.sizes() == (0, 0, 1, 0))
    runs = {job_id: site.ledger("begin", job=job_id) for job_id in ids}
    os.kill(begun["pid"], signal.SIGKILL)
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    assert {line["pid"] for job_id in ids[3:] for line in runs[job_id]} <= {*other.children}
    assert [[line["attempt"] for line in runs[job_id]] for job_id in ids] == [[1]] * 6
    assert [line["attempt"] for line in site.ledger("begin", job=ids[2])] == [1, 2]
    assert len(site.ledger("begin")) == 3 + 6 + 1
    assert worker.is_alive


def test_workers_that_pause_keep_nothing_that_others_could_run(site: Site) -> None:
    warm(site)

    site.dispatch(Hard("pause", bad=1), *quick(3))
    wait_for(lambda: len(site.ledger("begin", label="pause")) == 1)
    wait_for(lambda: site.sizes() == (3, 0, 0, 0))

    assert len(site.ledger("end")) == 3 + 1


def test_what_is_finished_does_not_wait_for_the_hook_of_a_job_whose_worker_died(site: Site) -> None:
    site.supervise()

    site.dispatch(SlowHook(600, limit=600), *quick(1_000))
    wait_for(lambda: site.ledger("hook begins"))

    ready, _, reserved, _ = site.sizes()
    assert (ready + len(site.ledger("end")), reserved) == (1_000, 0)


@pytest.mark.parametrize("site_on_each_store", ["postgresql", "mariadb"], indirect=True)
def test_what_is_looked_at_and_left_is_not_passed_by_for_a_later_queue(site_on_each_store: Site) -> None:
    site = site_on_each_store
    first = site.dispatch(*[Hard("sleep in one", seconds=0.013, bad=1) for _ in range(160)], queue="high")
    site.dispatch(*[Hard("sleep in one", seconds=0.013, bad=1) for _ in range(40)])

    site.supervise("--queue", "high,default", "--processes", "3")
    wait_for(lambda: len(site.ledger("end")) == 200)

    # The last ones may be under way while others begin with the next queue.
    begun = [line["job"] for line in site.ledger("begin")][:150]
    assert set(begun) <= set(first)
