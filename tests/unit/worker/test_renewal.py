from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

import pytest

from flask_jobs import clock
from flask_jobs.drivers.memory import MemoryDriver
from flask_jobs.envelope import Reservation, Room
from flask_jobs.pushes import Push
from flask_jobs.worker.renewal import Lease, Renewal

from ..support.values import envelope, reservation


class Losing(MemoryDriver):
    """Says of every lease that it is lost, but lets the test do something first."""

    def __init__(self) -> None:
        super().__init__(retry_after=0.06)
        self.asked = threading.Event()
        self.may_answer = threading.Event()

    def renew(self, reservations: Sequence[Reservation]) -> list[Reservation]:
        self.asked.set()
        assert self.may_answer.wait(5)
        return list(reservations)


def test_a_lease_that_ended_by_being_settled_is_not_called_lost(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "flask_jobs")
    driver = Losing()
    with Renewal(driver, is_wanted=True, retry_after=90) as renewal:
        lease = renewal.hold([reservation()], asked=clock.monotonic())[0]
        assert driver.asked.wait(5)
        renewal.let_go(lease)
        driver.may_answer.set()

    assert caplog.records == []


def test_a_lease_that_is_lost_is_called_so_with_its_job_and_without_a_warning(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "flask_jobs")
    driver = Losing()
    driver.may_answer.set()
    with Renewal(driver, is_wanted=True, retry_after=90) as renewal:
        renewal.hold([reservation()], asked=clock.monotonic())[0]
        assert driver.asked.wait(5)

    (record,) = [record for record in caplog.records if "has lost its lease" in record.getMessage()]
    assert record.levelno == logging.INFO
    assert record.__dict__.items() >= {"job_name": "demo", "queue": "default", "attempt": 1}.items()
    assert record.__dict__["job_id"] in record.getMessage()


def test_a_lease_is_counted_from_before_the_store_was_asked():
    driver = MemoryDriver(retry_after=50)
    lease = Renewal(driver, is_wanted=False, retry_after=90).hold([reservation()], asked=clock.monotonic() - 51)[0]

    assert lease.is_over
    assert not Lease(reservation(), clock.monotonic() + 1).is_over


def test_a_renewed_lease_lasts_longer():
    driver = MemoryDriver(retry_after=0.3)
    driver.push([Push(envelope())])
    (held,) = driver.pop(["default"], "token", Room()).reservations
    with Renewal(driver, is_wanted=True, retry_after=90) as renewal:
        lease = renewal.hold([held], asked=clock.monotonic())[0]
        ends = lease.ends
        while clock.monotonic() < ends + 0.05:
            time.sleep(0.01)

        assert not lease.is_over
