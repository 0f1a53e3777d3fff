"""Starts that are cut short: by a stop before anything has begun, and by the death of a worker on its way."""

from __future__ import annotations

import os
import random
import signal
import time

import psutil
import pytest

from tests.faults.app import Brief
from tests.faults.workers import Site, wait_for


def left_behind(site: Site) -> list[int]:
    """The processes of the site's app that live."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("FAULTS_FOLDER") == str(site.folder) and process.pid != os.getpid():
                found.append(process.pid)
        except psutil.Error:  # it has just ended, or is somebody else's
            continue
    return found


def starting(site: Site, who: str) -> int:
    """The process that has begun to load the app last."""
    file = site.folder / f"{who}-is-starting"
    wait_for(lambda: file.exists() and file.read_text())
    return int(file.read_text())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
def test_a_stop_that_comes_while_the_app_is_loaded_is_obeyed_at_once(site: Site, number: signal.Signals) -> None:
    supervisor = site.supervise(FAULTS_SLOW="60")
    starting(site, "command")

    supervisor.process.send_signal(number)

    assert supervisor.ended(10) == 0
    assert supervisor.log == supervisor.output == ""


def test_a_stop_that_comes_while_the_first_worker_starts_is_obeyed_at_once(site: Site) -> None:
    supervisor = site.supervise(FAULTS_SLOW="3")
    starting(site, "worker")

    supervisor.process.send_signal(signal.SIGTERM)

    assert supervisor.ended(10) == 0
    assert supervisor.lines("WARNING") == supervisor.lines("ERROR") == []
    assert left_behind(site) == []


def test_a_stop_at_any_instant_of_the_start_leaves_nothing_behind(site: Site) -> None:
    instants = random.Random(13)
    supervisors = [site.supervise("--processes", "2") for _ in range(4)]
    began = time.monotonic()
    for supervisor, instant in zip(supervisors, sorted(instants.uniform(0, 5) for _ in supervisors), strict=True):
        wait_for(lambda instant=instant: time.monotonic() >= began + instant)
        supervisor.process.send_signal(signal.SIGTERM)

    # Before Python has read the command it ends by the signal, as every process does.
    assert {supervisor.ended(20) for supervisor in supervisors} <= {0, -signal.SIGTERM}
    assert left_behind(site) == []
    assert not any(supervisor.lines("WARNING") + supervisor.lines("ERROR") for supervisor in supervisors)


def test_a_worker_that_is_killed_before_any_was_ready_is_tried_again(site: Site) -> None:
    site.dispatch(Brief("one"))
    supervisor = site.supervise("--stop-when-empty", FAULTS_SLOW="0.5")

    os.kill(starting(site, "worker"), signal.SIGKILL)

    assert supervisor.ended() == 0, supervisor.log
    assert [line for line in supervisor.lines("WARNING") if "SIGKILL" in line]
    assert "could not start" not in supervisor.log
    assert len(site.ledger("end")) == 1


@pytest.mark.slow
def test_workers_that_are_killed_at_each_start_end_the_command(site: Site) -> None:
    supervisor = site.supervise(FAULTS_BROKEN="killed")

    assert supervisor.ended() == 1
    assert len([line for line in supervisor.lines("WARNING") if "SIGKILL" in line]) == 5
    assert [line for line in supervisor.lines("ERROR") if "could not start 5 times in a row" in line]
