"""A lock is freed when its holder is gone, however it went, and never by anybody else."""

from __future__ import annotations

import itertools
import signal
import time

import pytest

from .app import Exclusive
from .workers import Site, wait_for

pytestmark = pytest.mark.slow

LEASE = 3


@pytest.fixture
def site(site_on_each_store: Site) -> Site:
    site_on_each_store.connection["retry_after"] = LEASE
    return site_on_each_store


def never_two(site: Site) -> bool:
    """Whether no two attempts that ended were under way at the same time."""
    ended = {(line["job"], line["attempt"]): line["at"] for line in site.ledger("end")}
    begun = {(line["job"], line["attempt"]): line["at"] for line in site.ledger("begin")}
    spans = sorted((begun[attempt], end) for attempt, end in ended.items())
    return all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))


def test_f11_a_killed_holder_frees_its_lock_with_its_lease(site: Site) -> None:
    for gate in (("killed", 2), ("next", 1)):
        site.open_gate(*gate)
    site.dispatch(Exclusive("killed"))
    worker = site.work()
    wait_for(lambda: site.ledger("begin", label="killed"))
    site.dispatch(Exclusive("next"))

    worker.send(signal.SIGKILL)
    killed = time.time()
    site.work()
    wait_for(lambda: site.ledger("end", label="next") and site.ledger("end", label="killed"), limit=60)

    (begun,) = site.ledger("begin", label="next")
    assert begun["attempt"] == 1
    assert begun["at"] - killed < LEASE + 20
    assert never_two(site)
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))


def test_f11_a_holder_that_ran_into_its_timeout_frees_its_lock(site: Site) -> None:
    site.open_gate("slow", 2)
    site.open_gate("next", 1)
    site.dispatch(Exclusive("slow", limit=1))
    site.work()
    wait_for(lambda: site.ledger("begin", label="slow"))
    site.dispatch(Exclusive("next"))

    wait_for(lambda: site.ledger("end", label="next") and site.ledger("end", label="slow"), limit=60)

    assert never_two(site)
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))


@pytest.mark.alone  # a successor that is starved of the processor would lose its own lease
def test_f11_a_holder_that_comes_too_late_does_not_free_the_lock_of_its_successor(site: Site) -> None:
    site.open_gate("third", 1)
    site.dispatch(Exclusive("frozen"))
    frozen = site.work()
    wait_for(lambda: site.ledger("begin", label="frozen"))
    frozen.send(signal.SIGSTOP)
    site.dispatch(Exclusive("successor"))
    # Whichever of the two takes the lock holds it until its gate is open.
    site.work()
    wait_for(lambda: len(site.ledger("begin")) == 2, limit=60)

    site.open_gate("frozen", 1)
    frozen.send(signal.SIGCONT)
    wait_for(lambda: site.ledger("end", label="frozen", attempt=1), limit=60)
    site.dispatch(Exclusive("third"))
    site.work()
    wait_for(lambda: "stale" in frozen.log or frozen.lines("WARNING"), limit=60)
    time.sleep(1.5)

    assert site.ledger("begin", label="third") == []
    assert len(site.ledger("begin")) == 2
    for gate in (("frozen", 2), ("successor", 1)):
        site.open_gate(*gate)
    wait_for(lambda: site.ledger("end", label="third") and site.ledger("end", label="successor"), limit=60)


def test_f11_a_job_that_is_dropped_ends_and_does_not_come_back(site: Site) -> None:
    site.dispatch(Exclusive("holder"))
    site.work()
    wait_for(lambda: site.ledger("begin", label="holder"))
    (dropped,) = site.dispatch(Exclusive("dropped", drop=True))
    site.work()

    wait_for(lambda: site.stored(dropped) is None)
    site.open_gate("holder", 1)
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    assert site.ledger("begin", label="dropped") == []
    assert site.failed() == []
