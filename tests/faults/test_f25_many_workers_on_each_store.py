"""F25: many workers and producers share a queue; each job ends once, nobody sees a deadlock, nothing is left."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.faults.many import FEW, Amount, Traffic, assert_each_ended_once
from tests.faults.stores import common_store
from tests.faults.workers import Site

SAMPLE = pytest.param(FEW, id="few", marks=pytest.mark.slow)


def full(jobs: int) -> object:
    return pytest.param(Amount(jobs, 8, 600), id="full", marks=pytest.mark.volume)


@pytest.mark.parametrize("amount", [SAMPLE, full(20_000)])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql", "mariadb", "redis"])
def test_f25_each_job_of_several_producers_ends_once_and_nothing_is_left(
    site: Site, tmp_path: Path, kind: str, amount: Amount
) -> None:
    with common_store(kind, tmp_path) as store:
        store.serve(site)
        traffic = Traffic(site, amount)

        traffic.until_all_is_done()
        for worker in traffic.workers:
            worker.send(signal.SIGTERM)
        codes = [worker.ended() for worker in traffic.workers]

        assert codes == [0] * amount.workers
        assert_each_ended_once(site, amount)
        assert traffic.said("WARNING") + traffic.said("ERROR") == []
        assert site.sizes() == (0, 0, 0, 0)
        assert store.left_behind() == set()
        site.close()
