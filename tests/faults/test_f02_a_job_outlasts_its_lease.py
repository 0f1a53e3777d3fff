"""A job that takes longer than its lease is not started a second time beside itself."""

from __future__ import annotations

import pytest

from .app import Blocking, Nap
from .workers import Site, wait_for


@pytest.mark.slow
def test_f02_a_lease_is_renewed_while_its_job_sleeps_or_blocks(site: Site) -> None:
    site.connection["retry_after"] = 2
    ids = site.dispatch(Nap(9), Blocking(9))

    workers = [site.work() for _ in range(3)]  # one more than there are jobs, to take what looks abandoned
    wait_for(lambda: len(site.ledger("end")) == 2, limit=60)
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    assert sorted(line["job"] for line in site.ledger("begin")) == sorted(ids)
    for job_id in ids:
        (begun,), (ended,) = site.ledger("begin", job=job_id), site.ledger("end", job=job_id)
        # A busy processor makes the one that blocks misjudge how long it will take.
        assert ended["at"] - begun["at"] > 2
    assert [line for worker in workers for line in worker.lines("WARNING")] == []


def test_f02_without_renewal_a_worker_whose_limit_is_beyond_the_lease_does_not_start(site: Site) -> None:
    site.connection.update(retry_after=5, renew=False)
    site.dispatch(Nap(0))

    worker = site.work("--timeout", "10", "--once")

    assert worker.ended() == 1
    assert "--timeout has timeout 10 s" in worker.log
    assert "retry_after 5 s" in worker.log
    assert "renew is off" in worker.log
    assert site.ledger() == []
