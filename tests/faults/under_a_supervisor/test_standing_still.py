"""Of a supervisor and its workers one stands still, stopped as by a debugger, and the other makes the best of it."""

from __future__ import annotations

import os
import signal
import time
from urllib.parse import urlsplit

import psutil
import pytest

from tests.faults.app import Brief, Gated
from tests.faults.hard_jobs import Hard
from tests.faults.workers import Site, wait_for
from tests.proxy import proxy_to
from tests.servers import own_prefix, required_redis


def stop(pid: int) -> None:
    """Let the process stand still."""
    os.kill(pid, signal.SIGSTOP)
    wait_for(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)


def is_gone(pid: int) -> bool:
    """Whether it has ended, also if nobody takes note of that."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_stopped_worker_does_not_hold_up_the_end_of_the_command(site: Site) -> None:
    supervisor = site.supervise().started()
    (child,) = supervisor.children
    stop(child)

    supervisor.send(signal.SIGTERM)

    assert supervisor.ended(10) == 0, supervisor.log  # long before the grace is over
    assert is_gone(child)
    assert "is ended" not in supervisor.log


@pytest.mark.slow
def test_f02_a_worker_keeps_its_job_while_its_supervisor_stands_still(site: Site) -> None:
    url = required_redis()
    with own_prefix(url) as prefix, proxy_to(urlsplit(url).port or 6379) as proxy:
        site.name = "redis"
        site.connection.update(driver="redis", url=proxy.url, prefix=prefix, retry_after=5)
        supervisor = site.supervise().started()
        (child,) = supervisor.children
        (job_id,) = site.dispatch(Gated("one"))
        wait_for(lambda: site.ledger("begin"))
        beside = site.work().started()  # it takes what looks abandoned
        proxy.delay = 0.3  # so that what the supervisor renews at once when it goes on comes after its look at leases

        stop(supervisor.pid)
        over = time.monotonic() + 1.5 * 5
        wait_for(lambda: time.monotonic() > over)
        supervisor.process.send_signal(signal.SIGCONT)
        site.dispatch(Brief("next"))
        wait_for(lambda: site.ledger("end", label="next"))
        for attempt in (1, 2):
            site.open_gate("one", attempt)
        wait_for(lambda: site.sizes() == (0, 0, 0, 0))

        assert [line["attempt"] for line in site.ledger("begin", job=job_id)] == [1]
        assert [line["pid"] for line in site.ledger("end", job=job_id)] == [child]
        assert supervisor.children == [child]
        assert supervisor.lines("WARNING") == beside.lines("WARNING") == []
        site.close()


@pytest.mark.slow
def test_f03_a_job_that_arrives_when_its_lease_may_be_over_is_not_begun(site: Site) -> None:
    """Somebody else holds the file, and lets the worker wait for as long as the lease of what it asks for."""
    site.connection["retry_after"] = 2.5
    supervisor = site.supervise().started()
    supervisor.process.send_signal(signal.SIGUSR2)
    wait_for(lambda: "Workers pause until SIGCONT." in supervisor.log)
    site.dispatch(Hard("sleep", seconds=1))
    with site.driver() as driver, driver.engine.connect() as holder:
        holder.exec_driver_sql("BEGIN IMMEDIATE")

        supervisor.process.send_signal(signal.SIGCONT)
        wait_for(lambda: "Workers go on." in supervisor.log)
        over = time.monotonic() + 1.4 * 2.5
        wait_for(lambda: time.monotonic() > over)
        holder.rollback()
    wait_for(lambda: site.ledger("end"))
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    assert [line["attempt"] for line in site.ledger("begin")] == [1]
    assert "is ended" not in supervisor.log


def test_f18_a_stopped_worker_outlives_the_death_of_its_supervisor_until_its_job_is_done(site: Site) -> None:
    """The kernel sends it SIGHUP, as to all that stands still with nobody left to continue it."""
    supervisor = site.supervise().started()
    (child,) = supervisor.children
    (job_id,) = site.dispatch(Gated("one"))
    wait_for(lambda: site.ledger("begin"))
    stop(child)

    supervisor.process.kill()
    supervisor.ended()
    wait_for(lambda: "The supervisor is gone" in supervisor.log or is_gone(child))
    site.open_gate("one", 1)
    wait_for(lambda: is_gone(child))

    assert [line["job"] for line in site.ledger("end")] == [job_id]
    assert site.sizes() == (0, 0, 0, 0)
