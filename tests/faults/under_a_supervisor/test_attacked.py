"""Jobs, apps and surroundings that do to a supervisor and its workers what nobody would expect of them."""

from __future__ import annotations

import signal

from ..app import Brief, Deaf
from ..workers import Site, wait_for


def test_a_worker_whose_job_has_dropped_the_signal_leaves_all_the_same(site: Site) -> None:
    supervisor = site.supervise().started()
    site.dispatch(Deaf(3), Deaf(3))
    wait_for(lambda: site.ledger("begin"))

    site.command("restart")

    assert supervisor.ended(20) == 0, supervisor.log
    assert len(site.ledger("end")) == 1


def test_idle_threads_wait_for_work_side_by_side(site: Site) -> None:
    supervisor = site.supervise("--threads", "3").started()
    for number in range(5):
        site.dispatch(Brief(str(number), 0.1))
        wait_for(lambda number=number: len(site.ledger("end")) > number)

    supervisor.send(signal.SIGTERM)

    assert supervisor.ended() == 0
    assert not supervisor.lines("ERROR")
