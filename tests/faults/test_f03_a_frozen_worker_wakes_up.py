"""A worker that lost its lease while it was frozen cannot settle what another one holds by now."""

from __future__ import annotations

import signal
import time

import pytest

from flask_jobs.stored import State

from .app import Brief, Gated
from .workers import Site, wait_for


@pytest.mark.slow
def test_f03_a_worker_that_lost_its_lease_changes_nothing_says_so_once_and_goes_on(site: Site) -> None:
    site.connection["retry_after"] = 2
    (job_id,) = site.dispatch(Gated("one"))
    frozen = site.work()
    wait_for(lambda: site.ledger("begin", attempt=1))
    frozen.send(signal.SIGSTOP)
    successor = site.work()
    wait_for(lambda: site.ledger("begin", attempt=2, pid=successor.pid))

    frozen.send(signal.SIGCONT)
    site.open_gate("one", 1)
    wait_for(lambda: site.ledger("end", attempt=1, pid=frozen.pid))
    wait_for(lambda: "settlement lost" in frozen.log)
    stored = site.stored(job_id)
    site.dispatch(Brief("next"))
    wait_for(lambda: site.ledger("end", label="next", pid=frozen.pid))
    site.open_gate("one", 2)
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    assert stored is not None
    assert (stored.state, stored.counters.attempts) == (State.RESERVED, 2)
    assert stored.leased_until is not None
    assert stored.leased_until > time.time() - 2
    assert len(frozen.lines("WARNING")) == 1, frozen.log
    assert (frozen.lines("ERROR"), "Traceback" in frozen.log) == ([], False)
    assert f"[job:{job_id}]" not in "".join(line for line in frozen.log.splitlines() if "processed" in line)
    assert [line for line in successor.log.splitlines() if f"[job:{job_id}]" in line and "processed" in line]
    assert frozen.is_alive
