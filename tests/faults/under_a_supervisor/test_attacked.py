"""Jobs, apps and surroundings that do to a supervisor and its workers what nobody would expect of them."""

from __future__ import annotations

from ..app import Deaf
from ..workers import Site, wait_for


def test_a_worker_whose_job_has_dropped_the_signal_leaves_all_the_same(site: Site) -> None:
    supervisor = site.supervise().started()
    site.dispatch(Deaf(3), Deaf(3))
    wait_for(lambda: site.ledger("begin"))

    site.command("restart")

    assert supervisor.ended(20) == 0, supervisor.log
    assert len(site.ledger("end")) == 1
