"""A delayed job waits in the store, in nobody's hands, however short the leases are."""

import time

from flask_jobs.envelope import After, Room
from flask_jobs.ids import new_id
from flask_jobs.stored import Sizes

from .support import answer, job, open_driver, start

DELAY = 2.5
LEASE = 0.4


def test_f05_delayed_jobs_are_started_once_when_they_are_due_and_held_by_nobody_before(tmp_path):
    driver = open_driver(tmp_path / "jobs.db", retry_after=30.0)
    ids = [pushed.id for pushed in driver.push([job(due=After(DELAY)) for _ in range(300)])]
    due = driver.find(ids[0]).due
    workers = [start("drain.py", tmp_path / "jobs.db", LEASE, 0.0) for _ in range(3)]

    reserved_early = 0
    while (now := driver.pop(["nobody"], new_id(), Room()).now) < due - 0.1:
        reserved_early = max(reserved_early, driver.size("default").reserved)
        time.sleep(min(0.02, due - now))
    starts = [start_ for worker in workers for start_ in answer(worker)["starts"]]

    assert reserved_early == 0
    assert sorted(job_id for job_id, _, _ in starts) == sorted(ids)
    assert {attempt for _, attempt, _ in starts} == {1}
    assert min(instant for _, _, instant in starts) >= due
    driver.close()


def test_f05_a_job_without_delay_does_not_wait_behind_them(tmp_path):
    driver = open_driver(tmp_path / "jobs.db")
    driver.push([job(due=After(DELAY)) for _ in range(2_000)])
    (pushed,) = driver.push([job()])

    popped = driver.pop(["default"], new_id(), Room(limit=50))

    assert [reservation.envelope.id for reservation in popped.reservations] == [pushed.id]
    assert driver.size("default") == Sizes(delayed=2_000, reserved=1)
    driver.close()
