"""Processes are replaced before they grow too large, between two jobs, and the supervisor does not grow at all."""

from __future__ import annotations

import psutil
import pytest

from tests.faults.app import Brief
from tests.faults.hard_jobs import Ballast
from tests.faults.workers import Site, wait_for


@pytest.mark.slow
@pytest.mark.parametrize(
    ("amount", "every"), [(100, 25), pytest.param(2_000, 10, marks=[pytest.mark.volume, pytest.mark.timeout(900)])]
)
def test_f23_replacing_a_process_doubles_no_job_and_the_supervisor_stays_small(
    site: Site, amount: int, every: int
) -> None:
    worker = site.supervise("--processes", "2", "--recycle", "20", "--memory", "150").started()
    text = "x" * 200_000
    for begin in range(0, amount, 50):
        site.dispatch(*(Ballast(text, 100 if number % every == 7 else 0) for number in range(begin, begin + 50)))
    wait_for(lambda: len(site.ledger("end")) >= amount // 10, limit=60)
    before = psutil.Process(worker.pid).memory_info().rss
    wait_for(lambda: site.sizes() == (0, 0, 0, 0), limit=800)
    after = psutil.Process(worker.pid).memory_info().rss

    begun, ended = site.ledger("begin"), site.ledger("end")
    assert len(begun) == len(ended) == amount
    assert {line["attempt"] for line in begun} == {1}
    assert [(line["job"], line["pid"]) for line in sorted(begun, key=lambda line: line["job"])] == [
        (line["job"], line["pid"]) for line in sorted(ended, key=lambda line: line["job"])
    ]
    per_process = [sum(line["pid"] == pid for line in ended) for pid in {line["pid"] for line in ended}]
    assert max(per_process) <= 20
    assert "takes more memory than it was to" in worker.log
    assert "as many jobs as one process was to" in worker.log
    assert after < before * 1.2
    assert worker.lines("WARNING") == []


@pytest.mark.parametrize("threads", ["1", "2"])
def test_f23_a_limit_below_the_size_of_the_app_leaves_each_process_one_job(site: Site, threads: str) -> None:
    worker = site.supervise("--memory", "1", "--threads", threads).started()
    for number in range(2):
        site.dispatch(Brief(str(number)))
        wait_for(lambda number=number: site.ledger("end", label=str(number)))
        done_by = site.ledger("end", label=str(number))[0]["pid"]
        wait_for(lambda gone=done_by: worker.children and gone not in worker.children)
        wait_for(lambda number=number: worker.log.count("worker started") >= (number + 2) * int(threads))

    assert len({line["pid"] for line in site.ledger("begin")}) == 2
    assert site.sizes() == (0, 0, 0, 0)
    assert worker.log.count("takes more memory than it was to") == 2 * int(threads)
    assert worker.log.count("worker started") == 3 * int(threads)
