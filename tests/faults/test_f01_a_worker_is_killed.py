"""A job whose worker dies amid it is neither lost nor marked as running for ever."""

from __future__ import annotations

import signal

import pytest

from .app import Gated
from .workers import Site, wait_for


@pytest.mark.slow
def test_f01_the_job_of_a_killed_worker_is_run_again_after_its_lease(site: Site) -> None:
    site.connection["retry_after"] = 3
    site.open_gate("one", 2)
    (job_id,) = site.dispatch(Gated("one"))
    first = site.work()
    wait_for(lambda: site.ledger("begin"))
    first.send(signal.SIGKILL)
    first.ended()

    second = site.work().started()
    begun = wait_for(lambda: len(site.ledger("begin")) == 2 and site.ledger("begin"))
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    assert [(line["job"], line["attempt"], line["pid"]) for line in begun] == [
        (job_id, 1, first.pid),
        (job_id, 2, second.pid),
    ]
    assert begun[1]["at"] - begun[0]["at"] < 3 + 2.5
    assert [line["attempt"] for line in site.ledger("end")] == [2]
    assert [line for line in second.lines("WARNING") if "reclaimed" in line and job_id in line]
