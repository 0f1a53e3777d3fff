"""Locks, unique keys, batches and chains learn at once of the death of a worker, on each store."""

from __future__ import annotations

import os
import signal

import pytest

from tests.faults.app import Brief, Callback, Exclusive, Member, OneOfAKind, jobs
from tests.faults.hard_jobs import Hard
from tests.faults.workers import Site, wait_for

pytestmark = pytest.mark.slow


def test_f11_f12_f42_f44_no_lock_key_member_or_link_waits_for_a_lease(site_on_each_store: Site) -> None:
    site = site_on_each_store
    site.connection["retry_after"] = 600
    site.open_gate("holder", 2)
    site.open_gate("next", 1)
    site.open_gate("again", 1)
    site.supervise("--processes", "2").started()
    with site.app.app_context():
        (holder,) = site.dispatch(Exclusive("holder"))
        unique = jobs.dispatch(OneOfAKind("one"))
        wait_for(lambda: len(site.ledger("begin")) == 2)
        beside = jobs.dispatch(OneOfAKind("one"))
        (waiting,) = site.dispatch(Exclusive("next"))
        for line in site.ledger("begin"):
            os.kill(line["pid"], signal.SIGKILL)

        wait_for(lambda: site.ledger("end", job=waiting))
        wait_for(lambda: [failed.envelope.id for failed in site.failed()] == [unique.id])
        site.open_gate("one", 1)
        afterwards = jobs.dispatch(OneOfAKind("one"))
        batch = jobs.batch([Member("kill"), Member("well")], finally_=Callback("finally"), allow_failures=True)
        chain = [Brief("first link"), Hard("die", bad=1), Brief("last link")]
        jobs.chain(chain, catch=Brief("sorry"))
        wait_for(lambda: site.ledger("end", label="last link"))
        wait_for(lambda: site.ledger("callback", role="finally"))
        wait_for(lambda: site.ledger("end", job=afterwards.id))
        wait_for(lambda: site.sizes() == (0, 0, 0, 2))
        state = batch.state()

    assert (beside.holder, bool(afterwards)) == (unique.id, True)
    assert [line["attempt"] for line in site.ledger("end", job=holder)] == [2]
    assert (state.total, state.pending, state.done, state.failed) == (2, 0, 1, 1)
    assert [line["counts"] for line in site.ledger("callback")] == [[2, 0, 1, 1, 0]]
    assert [line["attempt"] for line in site.ledger("begin", label="die")] == [1, 2]
    assert len(site.ledger("begin", label="last link")) == 1
    assert site.ledger("begin", label="sorry") == []
    assert all(failed.error.type.endswith("WorkerDied") for failed in site.failed())
