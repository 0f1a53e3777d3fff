"""What puts a job off costs it nothing, and its own rules of stopping hold beside it."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from flask_jobs.envelope import NOW, After, Counters, Entry, Event, Release, Room
from flask_jobs.ids import new_id

from .app import Brief, Limited, Throttled, current_job, jobs
from .workers import Site, wait_for

pytestmark = pytest.mark.slow


def test_f08_a_job_with_one_try_that_is_told_to_wait_runs_in_the_end(site_on_each_store: Site) -> None:
    site = site_on_each_store
    site.config["FAULTS_LIMIT"] = (1, 0.5)
    ids = site.dispatch(*[Limited() for _ in range(10)])

    for _ in range(3):
        site.work()
    wait_for(lambda: len(site.ledger("end")) == 10, limit=100)

    assert sorted(line["job"] for line in site.ledger("end")) == sorted(ids)
    assert {line["attempt"] for line in site.ledger("begin")} == {1}
    assert len(site.ledger("asked")) > 10
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))


def test_f08_a_job_that_raises_once_runs_twice_however_often_it_waited(site_on_each_store: Site) -> None:
    site = site_on_each_store
    site.config["FAULTS_LIMIT"] = (2, 0.5)
    ids = site.dispatch(*[Limited(raises=1, tries=2) for _ in range(6)])

    for _ in range(2):
        site.work()
    wait_for(lambda: len(site.ledger("end")) == 6, limit=100)

    attempts = defaultdict(list)
    for line in site.ledger("begin"):
        attempts[line["job"]].append(line["attempt"])
    assert attempts == {job_id: [1, 2] for job_id in ids}
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))


def test_f08_releases_can_be_read_and_their_number_bounds_nothing_but_itself(site_on_each_store: Site) -> None:
    site = site_on_each_store
    (job_id,) = site.dispatch(Brief())
    with site.driver() as driver:
        (reservation,) = driver.pop(["default"], new_id(), Room()).reservations
        entry = Entry(Event.RELEASED, reservation.now, 1, "busy")
        driver.settle([Release(reservation, After(0), Counters(releases=40_000), entry)])

        (again,) = driver.pop(["default"], new_id(), Room()).reservations
        driver.settle([Release(again, NOW, Counters(releases=40_001), entry)])
        found = driver.find(job_id)

    assert again.counters == Counters(attempts=1, releases=40_000)
    assert found is not None
    assert found.counters == Counters(releases=40_001)


def test_f08_a_bound_for_releases_ends_the_waiting(site: Site) -> None:
    site.config["FAULTS_LIMIT"] = (1, 1_000_000)
    with site.app.app_context():
        bounded = Limited()
        bounded.max_releases = 0
        jobs.dispatch(Limited())
        jobs.dispatch(bounded)
    site.drain()

    (failed,) = site.failed()
    assert len(site.ledger("begin")) == 1
    assert failed.error.type.endswith("MaxAttemptsExceeded")
    assert "max_releases is 0" in failed.error.message
    assert "the limit 'faults'" in failed.error.causes[-1]
    assert not current_job


def test_f09_attempts_and_a_deadline_and_a_backoff_and_a_circuit_breaker_hold_together(
    site_on_each_store: Site,
) -> None:
    site = site_on_each_store
    (job_id,) = site.dispatch(Throttled())
    site.work()

    wait_for(site.failed, limit=60)

    starts = [line["at"] for line in site.ledger("begin")]
    (failed,) = site.failed()
    assert len(starts) == 3
    assert starts[1] - starts[0] >= 1
    assert starts[2] - starts[1] >= 2
    assert failed.envelope.id == job_id
    assert failed.error.type == "ConnectionError"
    assert failed.error.message == "the bank does not answer"
    assert Counter(entry.event for entry in failed.history) == Counter({Event.ERROR: 3})
    with site.driver() as driver:
        assert driver.store.tally("errors/faults", 0, seconds=60).count == 3
