"""A job that is cut at its time limit for the last time fails there and then."""

from __future__ import annotations

import pytest

from .app import Nap
from .workers import Site, wait_for

pytestmark = pytest.mark.alone


@pytest.mark.parametrize("tries", [1, 2])
def test_f17_the_last_attempt_that_times_out_is_recorded_at_once(site: Site, tries: int) -> None:
    site.connection["retry_after"] = 60
    site.work().started()

    (job_id,) = site.dispatch(Nap(30, tries=tries, limit=1))
    wait_for(lambda: site.ledger("hook"))
    wait_for(lambda: site.sizes() == (0, 0, 0, 1))

    (failed,) = site.failed()
    starts = site.ledger("begin")
    assert failed.envelope.id == job_id
    assert failed.error.type.endswith("JobTimeout")
    assert "1 s" in failed.error.message
    assert [line["attempt"] for line in starts] == list(range(1, tries + 1))
    assert [line["error"] for line in site.ledger("hook")] == ["JobTimeout"]
    assert failed.failed_at - starts[-1]["at"] < 1 + 2
    assert site.ledger("end") == []
