"""Retrying all after a bad night: in portions, with flat memory, each failed job once, the new ones untouched."""

import sqlite3

import pytest

from flask_jobs.envelope import ErrorRecord, Fail, Room
from flask_jobs.ids import new_id

from .support import answer, job, open_driver, start

AMOUNTS = [4_000, pytest.param(200_000, marks=[pytest.mark.volume, pytest.mark.timeout(900)])]


@pytest.fixture
def driver(tmp_path):
    driver = open_driver(tmp_path / "jobs.db")
    yield driver
    driver.close()


def fail_one(driver):
    driver.push([job("other")])
    (reservation,) = driver.pop(["other"], new_id(), Room()).reservations
    driver.settle([Fail(reservation, ErrorRecord("E", "m"), reservation.counters)])


@pytest.mark.parametrize("amount", AMOUNTS)
def test_f41_each_old_failure_is_queued_once_though_the_command_was_interrupted(tmp_path, driver, amount):
    file = tmp_path / "jobs.db"
    connection = sqlite3.connect(file)
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO flask_jobs_failed "
        "(failed_at, hook, error_type, error_message, error_traceback, error_causes, id, name, queue, pushed_at, body) "
        "SELECT 1.0, 'ran', 'E', 'm', '', '[]', 'old-' || i, 'shop.send-invoice', 'default', 1.0, "
        "hex(zeroblob(2500)) FROM n",
        (amount,),
    )
    connection.commit()
    upto = driver.newest_failed()

    first = start("retry_all.py", file, upto, amount // 2_000)
    while first.poll() is None:
        fail_one(driver)
    half = answer(first)
    rest = answer(start("retry_all.py", file, upto, -1), timeout=600)
    again = answer(start("retry_all.py", file, upto, -1))

    (queued, distinct) = connection.execute(
        "SELECT count(*), count(DISTINCT retried_from) FROM flask_jobs WHERE queue = 'default'"
    ).fetchone()
    connection.close()
    assert (half["retried"], half["retried"] + rest["retried"], again["retried"]) == (amount // 2, amount, 0)
    assert queued == distinct == amount
    assert {failed.envelope.queue for failed in driver.failed()} == {"other"}
    assert rest["megabytes"] < 150


def test_f41_what_is_new_is_not_flushed_and_what_is_unknown_not_forgotten(driver):
    fail_one(driver)

    assert driver.flush(older_than=3_600.0) == 0
    assert not driver.forget(new_id())
    assert not driver.retry(new_id(), new_id())
    assert driver.count_failed() == 1
