"""The supervisor with worker processes that run nothing, and only say what they are told to."""

from __future__ import annotations

import sys
from collections.abc import Collection
from itertools import pairwise
from pathlib import Path

import pytest

from flask_jobs import clock
from flask_jobs.drivers.memory import MemoryDriver
from flask_jobs.envelope import Envelope, Room
from flask_jobs.errors import ConnectionLost
from flask_jobs.events import Events
from flask_jobs.options import WorkerDefaults
from flask_jobs.pushes import Push
from flask_jobs.supervisor import Supervisor, SupervisorSettings
from flask_jobs.supervisor import supervisor as module
from flask_jobs.worker.settings import Stop

WORKER = """
import sys
from flask_jobs.slate import Slate
from flask_jobs.worker.assignment import Assignment
from flask_jobs.worker.settings import Stop

assignment = Assignment.take()
slate = Slate.open(assignment.slate, assignment.lanes)
slate.lane(0).asking("token")
slate.ready()
slate.leaving(list(Stop).index(Stop[sys.argv[1]]))
"""


class Away(MemoryDriver):
    """Does not answer when it is to recover what a dead worker may have popped."""

    def recover(self, token: str, keep: Collection[str] = ()) -> int:
        raise ConnectionLost("away")


def ends(driver: MemoryDriver, stop: Stop) -> tuple[int, float]:
    """The exit code after the only worker has left with this reason, and after how many seconds it was known."""
    command = [sys.executable, "-c", WORKER, stop.name]
    supervisor = Supervisor(driver, Events(object()), SupervisorSettings(command, grace=None))
    began = clock.monotonic()
    code = supervisor.run()
    return code, clock.monotonic() - began


@pytest.mark.timeout(30)
def test_what_cannot_be_settled_keeps_a_command_that_has_done_its_work_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "ALONE", 0.5)

    code, seconds = ends(Away(), Stop.EMPTY)

    assert code == 1
    assert 0.5 < seconds < 8
    assert "could not be settled; it is left to its leases" in caplog.text


@pytest.mark.timeout(60)
def test_a_store_that_was_given_up_is_waited_for_no_longer(caplog: pytest.LogCaptureFixture) -> None:
    code, seconds = ends(Away(), Stop.STORE_AWAY)

    assert code == 3
    assert seconds < 8
    assert "could not be settled; it is left to its leases" in caplog.text


def test_the_command_ends_at_once_when_all_is_settled(caplog: pytest.LogCaptureFixture) -> None:
    code, seconds = ends(MemoryDriver(), Stop.EMPTY)

    assert code == 0
    assert seconds < 8
    assert not caplog.records


LAZY = """
import os, sys, time
from flask_jobs.envelope import Counters, Envelope, Reservation
from flask_jobs.slate import Slate
from flask_jobs.worker.assignment import Assignment
from flask_jobs.worker.settings import Stop

starts, receipt = sys.argv[1:]
assignment = Assignment.take()
slate = Slate.open(assignment.slate, assignment.lanes)
slate.ready()
is_first = not os.path.exists(starts)
with open(starts, "a") as file:
    file.write(f"{time.monotonic()}\\n")
if is_first:
    lane = slate.lane(0)
    lane.asking("token")
    lane.answered("token", [Reservation(Envelope("one", "demo", "default", "{}"), Counters(1), receipt, 0.0, 0.0)])
    lane.enter(0)
    lane.start(0)
    os.kill(os.getpid(), 9)
slate.leaving(list(Stop).index(Stop.SIGNAL))
"""


@pytest.mark.timeout(60)
def test_workers_that_leave_their_errands_undone_follow_each_other_more_and_more_slowly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "ALONE", 0.5)
    driver = MemoryDriver()
    driver.push([Push(Envelope("one", "demo", "default", body="{}"))])
    (held,) = driver.pop(["default"], "token", Room()).reservations
    command = [sys.executable, "-c", LAZY, str(tmp_path / "starts"), held.receipt]
    settings = SupervisorSettings(command, grace=None, defaults=WorkerDefaults(tries=1))

    def starts() -> list[float]:
        return [float(line) for line in (tmp_path / "starts").read_text().splitlines()]

    def enough() -> Stop | None:
        return Stop.RESTART if len(starts()) >= 5 else None

    code = Supervisor(driver, Events(object()), settings, why_leave=enough).run()

    pauses = [after - before for before, after in pairwise(starts()[1:])]
    assert code == 0
    assert driver.count_failed() == 1
    # The first of them may be gone before there is an errand.
    assert all(pause >= least for pause, least in zip(pauses, (0.0, 0.5, 1.0), strict=False)), pauses
    assert "failed() of 1 jobs was not called" in caplog.text
