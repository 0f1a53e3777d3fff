"""Many workers at the start of a window all see room; together they must not take more than there is."""

from __future__ import annotations

import datetime as dt
import signal
from collections import Counter
from dataclasses import dataclass

import pytest
import time_machine

from .app import Limited
from .workers import Site, wait_for


@dataclass(frozen=True)
class Race:
    """So many workers and jobs, at most `amount` jobs in `window` seconds, watched for so many windows."""

    workers: int
    jobs: int
    amount: int
    window: float
    windows: int

    @property
    def slack(self) -> float:
        """How much earlier than it was let through a job may seem to have been."""
        return min(self.window / 2, 1.0)


FEW = pytest.param(Race(5, 40, 5, 1.0, windows=4), id="few")
FULL = pytest.param(Race(16, 200, 5, 10.0, windows=8), id="full", marks=pytest.mark.volume)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("race", [FEW, FULL])
def test_f10_many_workers_let_no_more_jobs_through_than_the_limit(site_on_each_store: Site, race: Race) -> None:
    site = site_on_each_store
    site.config["FAULTS_LIMIT"] = (race.amount, race.window)
    ids = site.dispatch(*[Limited() for _ in range(race.jobs)])
    with site.driver() as driver:
        driver.pause("default")
    workers = [site.work() for _ in range(race.workers)]
    wait_for(lambda: all("worker started" in worker.log for worker in workers), limit=150)

    with site.driver() as driver:
        driver.resume("default")
    wanted = race.amount * (race.windows - 1)
    wait_for(lambda: len(site.ledger("end")) >= wanted, limit=race.window * race.windows + 100)
    for worker in workers:
        worker.send(signal.SIGTERM)
    codes = [worker.ended() for worker in workers]
    assert_within_the_limit(site, race)
    assert site.sizes()[2:] == (0, 0)
    drain_with_a_larger_limit(site, race)

    assert codes == [0] * race.workers
    assert sorted(line["job"] for line in site.ledger("end")) == sorted(ids)
    assert {line["attempt"] for line in site.ledger("begin")} == {1}
    assert site.sizes() == (0, 0, 0, 0)
    assert [line for worker in workers for line in worker.lines("ERROR")] == []


def assert_within_the_limit(site: Site, race: Race) -> None:
    """No window held more than its amount, and no other span as long more than twice as many."""
    # Let through somewhere between these two instants.
    between = sorted((line["asked"], line["at"]) for line in site.ledger("through"))
    surely = Counter(asked // race.window for asked, at in between if asked // race.window == at // race.window)
    spans = zip(between, between[2 * race.amount :], strict=False)

    assert max(surely.values()) <= race.amount
    assert all(after[1] - before[0] > race.window - race.slack for before, after in spans)
    assert sum(surely.values()) > len(between) / 4
    assert len({line["pid"] for line in site.ledger("asked")}) > race.workers / 4


def drain_with_a_larger_limit(site: Site, race: Race) -> None:
    """Run what is left, whose turns have all come and gone, in this process."""
    site.config["FAULTS_LIMIT"] = (race.jobs * 10, race.window)
    site.connection["clock"] = "local"
    site.renew()
    with time_machine.travel(dt.datetime.now(dt.UTC) + dt.timedelta(hours=1), tick=True):
        site.drain()
