"""Sixteen workers at the start of a window all see room; together they must not take more than there is."""

from __future__ import annotations

from collections import Counter

import pytest

from .app import Limited
from .workers import Site, wait_for

WORKERS, JOBS, AMOUNT, WINDOW = 16, 60, 5, 2.0


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_f10_sixteen_workers_let_no_more_jobs_through_than_the_limit(site_on_each_store: Site) -> None:
    site = site_on_each_store
    site.config["FAULTS_LIMIT"] = (AMOUNT, WINDOW)
    ids = site.dispatch(*[Limited() for _ in range(JOBS)])
    with site.driver() as driver:
        driver.pause("default")
    workers = [site.work() for _ in range(WORKERS)]
    wait_for(lambda: all("worker started" in worker.log for worker in workers), limit=150)

    with site.driver() as driver:
        driver.resume("default")
    wait_for(lambda: len(site.ledger("end")) == JOBS, limit=200)

    # Let through somewhere between these two instants.
    between = sorted((line["asked"], line["at"]) for line in site.ledger("through"))
    surely = Counter(asked // WINDOW for asked, at in between if asked // WINDOW == at // WINDOW)
    assert max(surely.values()) <= AMOUNT
    spans = zip(between, between[2 * AMOUNT :], strict=False)
    assert all(after[1] - before[0] > WINDOW / 2 for before, after in spans)
    assert sum(surely.values()) > JOBS / 3
    assert sorted(line["job"] for line in site.ledger("end")) == sorted(ids)
    assert {line["attempt"] for line in site.ledger("begin")} == {1}
    assert len({line["pid"] for line in site.ledger("asked")}) > 4
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))
    assert [line for worker in workers for line in worker.lines("ERROR")] == []
