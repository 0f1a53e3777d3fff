"""The end of the command while the store is away, with worker processes that only say what they are told to."""

from __future__ import annotations

import sys
from collections.abc import Collection

import pytest

from flask_jobs import clock
from flask_jobs.drivers.memory import MemoryDriver
from flask_jobs.errors import ConnectionLost
from flask_jobs.events import Events
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
