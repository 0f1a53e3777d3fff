"""What a supervisor is told by signals, by the store and by the app, and what it tells its service manager."""

from __future__ import annotations

import secrets
import signal
import socket
import tempfile
import time
from pathlib import Path

import pytest

from tests.faults.app import Brief, Gated, Nap
from tests.faults.workers import Site, wait_for


def test_workers_pause_and_go_on_at_a_signal(site: Site) -> None:
    worker = site.supervise("--processes", "2").started()
    worker.process.send_signal(signal.SIGUSR2)
    wait_for(lambda: "Workers pause until SIGCONT." in worker.log)
    time.sleep(0.3)  # the order is given in the turn that says so

    site.dispatch(Brief("one"))
    time.sleep(1)
    meanwhile = site.sizes()
    worker.process.send_signal(signal.SIGCONT)
    wait_for(lambda: site.ledger("end"))

    assert meanwhile == (1, 0, 0, 0)
    assert len(worker.children) == 2


def test_a_restart_ends_the_command_after_the_current_job(site: Site) -> None:
    worker = site.supervise("--grace", "1").started()
    site.dispatch(Gated("one"))
    wait_for(lambda: site.ledger("begin"))
    site.dispatch(Brief("next"))

    site.command("restart")
    time.sleep(3)  # it asks every two seconds, and a restart has no grace
    still_there = worker.is_alive
    site.open_gate("one", 1)

    assert worker.ended(20) == 0
    assert still_there
    assert len(site.ledger("end", label="one")) == 1
    assert site.sizes() == (1, 0, 0, 0)
    assert "Stopping because a restart was asked for: waiting for 1 running job.\n" in worker.log
    assert "worker stops on database: a restart was asked for" in worker.log
    assert "told to stop" not in worker.log


def test_a_signal_amid_a_restart_is_a_stop_with_its_grace(site: Site) -> None:
    worker = site.supervise("--grace", "0.5", "--processes", "2").started()
    site.dispatch(Gated("one"), Gated("two"))
    wait_for(lambda: len(site.ledger("begin")) == 2)
    site.command("restart")
    wait_for(lambda: "a restart was asked for: waiting for 2 running jobs.\n" in worker.log)

    worker.process.send_signal(signal.SIGTERM)

    assert worker.ended(20) == 1
    assert "Stopping: waiting up to 0.5 s for 2 running jobs; a second signal cuts them short.\n" in worker.log
    assert site.sizes() == (2, 0, 0, 0)


def test_a_worker_that_is_too_large_from_the_start_hears_of_a_restart_while_it_waits_for_its_one_job(
    site: Site,
) -> None:
    worker = site.work("--memory", "1").started()

    site.command("restart")

    assert worker.ended(20) == 0
    assert "a restart was asked for" in worker.log


def test_an_app_in_maintenance_gives_out_jobs_only_by_force(site: Site) -> None:
    site.config["JOBS_MAINTENANCE"] = True
    held_back = site.supervise().started()
    site.dispatch(Brief("one"))

    time.sleep(1)
    meanwhile = site.sizes()
    forced = site.supervise("--force", "--stop-when-empty")
    code = forced.ended()
    held_back.send(signal.SIGTERM)

    assert meanwhile == (1, 0, 0, 0)
    assert (code, len(site.ledger("end"))) == (0, 1)
    assert "faults.brief" not in held_back.log
    assert held_back.ended(5) == 0


def test_a_worker_tells_once_that_maintenance_begins_and_that_it_is_over(site: Site) -> None:
    flag = site.folder / "maintenance"
    flag.touch()
    worker = site.supervise(FAULTS_MAINTENANCE=str(flag)).started()
    begins, ends = "The app is in maintenance (JOBS_MAINTENANCE)", "The maintenance is over"

    wait_for(lambda: begins in worker.log)
    time.sleep(2)  # it asks each second
    flag.unlink()
    wait_for(lambda: ends in worker.log)
    site.dispatch(Brief("one"))
    wait_for(lambda: site.ledger("end"))

    assert (worker.log.count(begins), worker.log.count(ends)) == (1, 1)


def test_without_renewal_a_job_that_may_outlast_its_lease_fails_before_it_begins(site: Site) -> None:
    site.connection.update(retry_after=5, renew=False)
    site.dispatch(Nap(0, limit=10), Nap(0, limit=4))

    worker = site.supervise("--timeout", "2", "--stop-when-empty")

    assert worker.ended() == 0
    (failed,) = site.failed()
    assert failed.error.type.endswith("ConfigurationError")
    assert "timeout 10 s" in failed.error.message
    assert "its lease is good for less than 4.5 s" in failed.error.message
    assert len(site.ledger("begin")) == len(site.ledger("end")) == 1


@pytest.mark.parametrize("is_abstract", [False, True])
def test_a_service_manager_is_told_of_readiness_life_and_stop(site: Site, is_abstract: bool) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        path = f"@{secrets.token_hex(8)}" if is_abstract else str(Path(folder) / "notify")
        ear.bind("\0" + path[1:] if is_abstract else path)
        ear.settimeout(30)
        told: list[bytes] = []

        worker = site.supervise(NOTIFY_SOCKET=path, WATCHDOG_USEC="400000")
        while told.count(b"WATCHDOG=1") < 4 or b"READY=1" not in told:
            told.append(ear.recv(100))
        was_up = "worker started" in worker.log or worker.children
        beats = [time.monotonic() for _ in range(4) if ear.recv(100) == b"WATCHDOG=1"]
        worker.send(signal.SIGTERM)
        while b"STOPPING=1" not in told:
            told.append(ear.recv(100))

        assert worker.ended(5) == 0
        assert was_up
        assert told.count(b"READY=1") == told.count(b"STOPPING=1") == 1
        assert told.index(b"READY=1") > 0  # the supervisor lives before its first worker is ready
        assert beats[-1] - beats[0] < 3 * 0.4
