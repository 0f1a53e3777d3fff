"""What somebody has written over in the store costs that job its place, and no other job anything."""

import sqlite3

import pytest

from flask_jobs.envelope import Ack, Room
from flask_jobs.ids import new_id

from .support import job, open_driver


@pytest.fixture
def file(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def driver(file):
    driver = open_driver(file)
    yield driver
    driver.close()


def drained(driver):
    """The ids of all jobs, each popped alone and done."""
    ids = []
    while reservations := driver.pop(["default"], new_id(), Room(limit=1)).reservations:
        ids.append(reservations[0].envelope.id)
        driver.settle([Ack(reservations[0])])
    return ids


@pytest.mark.parametrize(
    "damage",
    [
        "history = '{bad'",
        'history = \'[["nope", 1, 1, "", null]]\'',
        "attempts = 'abc'",
        "errors = 'abc', pushed_at = 'abc', retry_until = 'abc'",
        "at = 'abc'",
        "progress = '{'",
        "body = CAST(x'ff00fe' AS TEXT)",
        "name = CAST(x'ff00fe' AS TEXT)",
        "body = x'ff00fe'",
        "state = 2, at = 1, token = 'gone', history = '{bad', attempts = 'abc'",
    ],
)
def test_a_damaged_row_does_not_keep_the_others_from_being_popped_and_listed(file, driver, damage):
    pushes = [job(), job()]
    driver.push(pushes)
    with sqlite3.connect(file) as raw:
        raw.execute(f"UPDATE flask_jobs SET {damage} WHERE id = ?", [pushes[0].envelope.id])
    raw.close()

    listed = [stored.envelope.id for stored in driver.jobs("default")]
    ran = drained(driver)

    ids = {push.envelope.id for push in pushes}
    assert set(listed) == set(ran) == ids
    assert len(ran) == 2


def test_an_instant_that_is_no_number_is_waited_for_by_nobody(file, driver):
    driver.push([job()])
    with sqlite3.connect(file) as raw:
        raw.execute("UPDATE flask_jobs SET state = 1, at = 'abc'")
    raw.close()

    popped = driver.pop(["default"], new_id(), Room())

    assert (popped.reservations, popped.next_due) == ((), None)


@pytest.mark.parametrize("name", ["CAST(x'ff' AS TEXT)", "x'ff'", "'two words'", "7.5", "''"])
def test_a_queue_that_can_have_no_such_name_hides_no_other(file, driver, name):
    driver.push([job("alpha"), job("omega"), job("damaged")])
    with sqlite3.connect(file) as raw:
        raw.execute(f"UPDATE flask_jobs SET queue = {name} WHERE queue = 'damaged'")
    raw.close()

    assert [queue for queue in driver.queues() if queue != "7.5"] == ["alpha", "omega"]
