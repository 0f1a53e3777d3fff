"""`flask jobs retry`, killed wherever it is: each failed job stays in one place, and is queued again once."""

from __future__ import annotations

import random
import signal
import time
from typing import Any

import pytest

from flask_jobs.envelope import Counters, ErrorRecord, Fail, Room
from flask_jobs.ids import new_id

from .app import Brief, Broken
from .workers import Site, wait_for


def fail(site: Site, amount: int) -> list[str]:
    """So many failed jobs, each of which would end well if it were run."""
    ids = site.dispatch(*[Brief("again")] * amount)
    room = Room(limit=1_000, box=1_000.0, means={"faults.brief": 0.0})
    with site.driver() as driver:
        while popped := driver.pop(["default"], new_id(), room).reservations:
            driver.settle([Fail(each, ErrorRecord("E", "m"), Counters(attempts=1, errors=1)) for each in popped])
    return ids


def places(site: Site) -> tuple[list[str], list[Any]]:
    """The ids of the failed jobs, and for each queued one which failed job it comes from."""
    with site.driver() as driver, driver.engine.connect() as connection:
        failed = connection.exec_driver_sql("SELECT id FROM flask_jobs_failed").scalars().all()
        queued = connection.exec_driver_sql("SELECT retried_from FROM flask_jobs").scalars().all()
        return list(failed), list(queued)


@pytest.mark.slow
@pytest.mark.alone
def test_f06_a_killed_retry_of_all_leaves_each_job_in_one_place_and_is_ended_by_another(site: Site) -> None:
    ids = fail(site, 8_000)
    seen = []
    for _ in range(4):
        left = len(places(site)[0])
        if left == 0:  # on a busy machine a command may reach its end before it is killed
            break
        retry = site.flask("jobs", "retry", "all")
        wait_for(lambda left=left: len(places(site)[0]) < left)
        time.sleep(random.random() * 0.02)
        retry.send(signal.SIGKILL)
        retry.ended()
        failed, queued = places(site)
        seen.append(sorted(failed + queued) == sorted(ids))

    first, second = (site.flask("jobs", "retry", "all") for _ in range(2))
    codes = [first.ended(), second.ended()]

    assert seen
    assert all(seen)
    assert codes == [0, 0]
    failed, queued = places(site)
    assert (failed, sorted(queued)) == ([], sorted(ids))


@pytest.mark.slow
def test_f06_a_killed_retry_of_one_job_leaves_it_in_one_place(site: Site) -> None:
    (job_id,) = fail(site, 1)
    seen = []
    for _ in range(4):
        retry = site.flask("jobs", "retry", job_id)
        time.sleep(0.3 + random.random() * 0.5)  # the command takes about so long, from its start to its end
        retry.send(signal.SIGKILL)
        retry.ended()
        seen.append(sorted([*places(site)[0], *places(site)[1]]))

    assert seen == [[job_id]] * 4


def test_f06_a_job_that_fails_after_every_retry_is_listed_once_and_retried_once(site: Site) -> None:
    site.dispatch(Broken())
    site.drain()
    for _ in range(3):
        (failed,) = site.failed()
        site.command("retry", failed.envelope.id)
        site.drain()
    listed = site.failed()

    said = [site.command("retry", "all") for _ in range(2)]

    assert len(listed) == 1
    assert [text.splitlines()[-1] for text in said] == ["1 retried.", "No failed job matches."]
    site.drain()
    assert len(site.ledger("begin", label="broken")) == 5
    assert len({line["job"] for line in site.ledger("begin")}) == 5
    assert site.sizes() == (0, 0, 0, 1)
