"""A process that dies in the middle of moving a job leaves it in exactly one place."""

import pytest

from flask_jobs.drivers.memory import MemoryDriver
from flask_jobs.envelope import ErrorRecord, Fail, Room
from flask_jobs.ids import new_id
from flask_jobs.stored import Sizes

from .support import answer, job, open_driver, start


@pytest.mark.parametrize("way", ["release", "retry"])
@pytest.mark.parametrize("kills", [20, pytest.param(300, marks=pytest.mark.volume)])
def test_f06_a_job_is_in_one_place_wherever_its_mover_is_killed(tmp_path, way, kills):
    seen = answer(start("kill_in_transition.py", tmp_path / "jobs.db", way, kills))

    assert len(seen) == kills
    assert {sum(places) for places in seen} == {1}


@pytest.fixture(params=["memory", "sqlite"])
def driver(request, tmp_path):
    driver = MemoryDriver() if request.param == "memory" else open_driver(tmp_path / "jobs.db")
    yield driver
    driver.close()


def test_f06_a_job_that_keeps_failing_is_kept_once_and_retried_once(driver):
    driver.push([job()])
    for _ in range(3):
        (reservation,) = driver.pop(["default"], new_id(), Room()).reservations
        driver.settle([Fail(reservation, ErrorRecord("E", "m"), reservation.counters)])
        (failed,) = driver.failed()
        driver.retry(failed.envelope.id, new_id())
    (reservation,) = driver.pop(["default"], new_id(), Room()).reservations
    driver.settle([Fail(reservation, ErrorRecord("E", "m"), reservation.counters)])

    retried = driver.retry_many(new_id, upto=driver.newest_failed())

    assert len(retried) == 1
    assert driver.count_failed() == 0
    assert driver.size("default") == Sizes(ready=1)
