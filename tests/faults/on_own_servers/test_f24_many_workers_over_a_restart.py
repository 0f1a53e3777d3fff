"""F24, F25, F36: the server is restarted, or dies, amid the work of many; no job is lost, and none runs twice for it.

Where a server dies, a job may run again because its lease ran out, which is told; and on PostgreSQL, because nothing is
left of its whole first run in the last moment before.
"""

from __future__ import annotations

import re
import signal
import time
from collections import Counter

import pytest

from tests.faults.many import FEW, Amount, Traffic, assert_each_ended_once
from tests.faults.stores import Store
from tests.faults.workers import Site

# What PostgreSQL need not flush at once it flushes after three times 0.2 s at the latest; and the machine is busy.
LAST_MOMENT = 2.0

AMOUNTS = [
    pytest.param(FEW, id="few", marks=pytest.mark.slow),
    pytest.param(Amount(20_000, 8, 600), id="full", marks=pytest.mark.volume),
]


@pytest.mark.parametrize("amount", AMOUNTS)
def test_f24_a_restart_amid_the_work_of_many_changes_nothing(site: Site, store: Store, amount: Amount) -> None:
    traffic = Traffic(site, amount, retry_after=120)

    for worker in traffic.workers:
        worker.started()
    traffic.until(0.3)
    store.server.stop()
    store.server.start()
    traffic.until_all_is_done()
    for worker in traffic.workers:
        worker.send(signal.SIGTERM)

    assert [worker.ended() for worker in traffic.workers] == [0] * amount.workers
    assert_each_ended_once(site, amount)
    assert site.sizes() == (0, 0, 0, 0)
    assert store.left_behind() == set()


@pytest.mark.parametrize("amount", AMOUNTS)
def test_f24_a_server_that_dies_amid_the_work_of_many_loses_no_job(
    site: Site, store: Store, kind: str, amount: Amount
) -> None:
    traffic = Traffic(site, amount, retry_after=5)

    for worker in traffic.workers:
        worker.started()
    traffic.until(0.3)
    died = time.time()
    store.server.kill()
    store.server.start()
    traffic.until_all_is_done()
    for worker in traffic.workers:
        worker.send(signal.SIGTERM)

    assert [worker.ended() for worker in traffic.workers] == [0] * amount.workers
    ends = Counter(line["job"] for line in site.ledger("end"))
    assert ends.keys() == {line["job"] for line in site.ledger("made")}
    explained = reclaimed(traffic) | (forgotten(site, died) if kind == "postgresql" else set())
    assert {job for job, times in ends.items() if times > 1} <= explained
    assert site.sizes() == (0, 0, 0, 0)
    assert store.left_behind() == set()


def reclaimed(traffic: Traffic) -> set[str]:
    """The jobs whose lease ran out, as the workers that took them in have told."""
    told = [line for line in traffic.said("WARNING") if "reclaimed: its lease ran out" in line]
    return {re.search(r"\[job:(.+?)\]", line)[1] for line in told}


def forgotten(site: Site, died: float) -> set[str]:
    """The jobs that had just ended when the server died, so that it may not have written down that they ever began."""
    return {line["job"] for line in site.ledger("end") if died - LAST_MOMENT <= line["at"] <= died + LAST_MOMENT}
