"""Taking a job costs the same whatever lies delayed, failed or ended beside it."""

import re
import sqlite3
import statistics

import pytest
import sqlalchemy as sa

from flask_jobs import clock
from flask_jobs.drivers.database import DatabaseDriver, metadata, open_engine
from flask_jobs.envelope import Ack, After, Room
from flask_jobs.ids import new_id

from .support import count, job, open_driver

pytestmark = pytest.mark.alone

MONTH = 30 * 86_400.0

AMOUNTS = [(2_000, 1_000), pytest.param((300_000, 100_000), marks=[pytest.mark.volume, pytest.mark.timeout(600)])]


def fill(driver, file, delayed, failed):
    for _ in range(delayed // 1_000):
        driver.push([job(due=After(MONTH)) for _ in range(1_000)])
    connection = sqlite3.connect(file)
    connection.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO flask_jobs_failed "
        "(failed_at, hook, error_type, error_message, error_traceback, error_causes, id, name, queue, pushed_at, body) "
        "SELECT 1.0, 'ran', 'E', 'm', '', '[]', 'old-' || i, 'shop.send-invoice', 'default', 1.0, '{}' FROM n",
        (failed,),
    )
    connection.commit()
    connection.close()


def seconds_of_a_pop(driver, amount):
    """The median of popping and acking so many jobs one by one."""
    driver.push([job() for _ in range(amount)])
    taken = []
    for _ in range(amount):
        before = clock.monotonic()
        (reservation,) = driver.pop(["default"], new_id(), Room()).reservations
        taken.append(clock.monotonic() - before)
        driver.settle([Ack(reservation)])
    return statistics.median(taken)


@pytest.mark.parametrize("amounts", AMOUNTS)
def test_f27_popping_is_as_quick_beside_many_delayed_and_failed_jobs(tmp_path, amounts):
    empty, full = open_driver(tmp_path / "empty.db"), open_driver(tmp_path / "full.db")
    fill(full, tmp_path / "full.db", *amounts)
    seconds_of_a_pop(empty, 20), seconds_of_a_pop(full, 20)

    alone, beside = seconds_of_a_pop(empty, 300), seconds_of_a_pop(full, 300)

    assert beside < 0.02
    assert beside < 3 * alone
    assert full.size("default").delayed == amounts[0]
    empty.close()
    full.close()


@pytest.mark.parametrize("analyzed", [False, True])
def test_f27_no_statement_of_a_workers_day_scans_or_sorts_a_table(tmp_path, analyzed):
    file = tmp_path / "jobs.db"
    prepared = open_driver(file)
    fill(prepared, file, 2_000, 1_000)
    prepared.push([job() for _ in range(60)])
    if analyzed:
        with prepared.engine.connect() as connection:
            connection.exec_driver_sql("ANALYZE")
    prepared.close()
    engine, statements = open_engine(f"sqlite:///{file}"), []
    sa.event.listen(engine, "connect", lambda raw, _: raw.set_trace_callback(statements.append))
    driver = DatabaseDriver(engine, retry_after=0.001)

    driver.push([job(), job(front=True)])
    for limit in (1, 50, 50):
        popped = driver.pop(["high", "default"], "a-token", Room(limit, 1.0, {"shop.send-invoice": 0.001}))
    driver.renew(popped.reservations)
    driver.settle([Ack(reservation) for reservation in popped.reservations])
    driver.held("a-token")
    driver.recover("a-token")
    driver.pop(["high"], "a-token", Room())
    driver.size("default")
    engine.dispose()

    plans = plans_of(file, [text for text in statements if re.match("SELECT|INSERT|UPDATE|DELETE", text)])
    assert len(plans) > 20
    assert {step for step in plans if re.search(r"SCAN flask_jobs", step)} == set()
    # What one pop holds is put in order when it is looked at or recovered; that is all that is ever sorted.
    sorted_ = {text for (text, step) in plans_by_statement(file, statements) if "TEMP B-TREE" in step}
    assert all("token = 'a-token'" in text for text in sorted_)


def plans_of(file, statements):
    return [step for _, step in plans_by_statement(file, statements)]


def plans_by_statement(file, statements):
    connection = sqlite3.connect(file)
    found = [
        (text, step)
        for text in dict.fromkeys(statements)
        if re.match("SELECT|INSERT|UPDATE|DELETE", text)
        for (_, _, _, step) in connection.execute(f"EXPLAIN QUERY PLAN {text}")
    ]
    connection.close()
    return found


def test_f27_what_is_remembered_of_ended_jobs_is_forgotten_in_small_portions(tmp_path):
    driver = open_driver(tmp_path / "jobs.db", remember_ids=0.01, retry_after=0.01)
    ended = metadata.tables["flask_jobs_ended"].name
    most = 0
    for _ in range(30):
        driver.push([job() for _ in range(100)])
        room = Room(100, 10.0, {"shop.send-invoice": 0.001})
        driver.settle([Ack(reservation) for reservation in driver.pop(["default"], new_id(), room).reservations])
        most = max(most, count(driver, ended))

    assert most < 1_000
    driver.close()


def test_f27_failed_jobs_are_flushed_in_bounded_portions(tmp_path):
    driver = open_driver(tmp_path / "jobs.db")
    fill(driver, tmp_path / "jobs.db", 0, 2_500)

    assert [driver.flush(older_than=60.0) for _ in range(4)] == [1_000, 1_000, 500, 0]
    driver.close()
