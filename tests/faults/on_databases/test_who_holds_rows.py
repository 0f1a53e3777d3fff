"""What holds rows of several jobs does so in one order, and waits for nobody whose rows it does not want.

Two that hold rows in different orders wait for each other until the server finds out, which takes a second on
PostgreSQL: in that time a short lease is over, and a job that has ended runs again.
"""

import time
from contextlib import contextmanager
from threading import Thread

import pytest
import sqlalchemy as sa

from flask_jobs.envelope import NOW, Ack, Counters, Entry, Event, Release, Room
from flask_jobs.ids import new_id
from tests.faults.support import job
from tests.faults.workers import wait_for


@pytest.fixture
def held(driver):
    """Two deliveries of one pop, in the order of their rows."""
    return several(driver)


def several(driver, amount=2):
    jobs = [job() for _ in range(amount)]
    driver.push(jobs)
    means = {jobs[0].envelope.name: 0.0001}
    return driver.pop(["default"], new_id(), Room(limit=amount, box=1.0, means=means)).reservations


def put_back(reservation):
    entry = Entry(Event.RELEASED, reservation.now, reservation.attempt)
    return Release(reservation, NOW, Counters(), entry)


def renew(driver, first, second):
    driver.renew([second, first])


def acknowledge(driver, first, second):
    driver.settle([Ack(second), Ack(first)])


def acknowledge_and_go_on(driver, first, second):
    driver.exchange([Ack(second), Ack(first)], ["default"], new_id(), Room())


def acknowledge_and_release(driver, first, second):
    driver.settle([Ack(second), put_back(first)])


@pytest.mark.parametrize("step", [renew, acknowledge, acknowledge_and_go_on, acknowledge_and_release])
def test_who_waits_for_the_first_row_does_not_hold_the_second(app_engine, driver, held, step):
    first, second = held
    with holding(app_engine, first) as other:
        waiting = Thread(target=step, args=(driver, first, second))
        waiting.start()
        wait_for(lambda: somebody_waits(app_engine))

        other.execute(row(second, nowait=True))
    waiting.join(30)

    assert not waiting.is_alive()


def test_jobs_of_several_pops_are_acknowledged_in_the_order_of_their_rows(app_engine, driver):
    (first, third), (second, fourth) = several(driver), several(driver)
    first, second, third, fourth = sorted((first, second, third, fourth), key=number)
    with holding(app_engine, first) as other:
        waiting = Thread(target=driver.settle, args=([Ack(third), Ack(fourth), Ack(second), Ack(first)],))
        waiting.start()
        wait_for(lambda: somebody_waits(app_engine))

        for each in (second, third, fourth):
            other.execute(row(each, nowait=True))
    waiting.join(30)

    assert not waiting.is_alive()


def test_what_is_kept_is_not_waited_for_when_the_rest_is_put_back(app_engine, driver, held):
    kept, lost = held
    token = kept.receipt.partition(":")[2]
    with holding(app_engine, kept):
        answers = []
        recovering = Thread(target=lambda: answers.append(driver.recover(token, keep=[kept.envelope.id])))
        recovering.start()
        recovering.join(10)

        assert answers == [1]
    assert driver.pop(["default"], new_id(), Room()).reservations[0].envelope.id == lost.envelope.id


@contextmanager
def holding(engine, reservation):
    """A transaction of somebody else that holds the row of a job."""
    with engine.connect() as connection, connection.begin():
        connection.execute(row(reservation))
        yield connection


def row(reservation, *, nowait=False):
    table = sa.table("flask_jobs", sa.column("seq"))
    return sa.select(table.c.seq).where(table.c.seq == number(reservation)).with_for_update(nowait=nowait)


def number(reservation):
    return int(reservation.receipt.partition(":")[0])


def somebody_waits(engine):
    """Whether a session of this database waits for a row."""
    waits = {
        "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND wait_event_type = 'Lock'",
        "mysql": "SELECT count(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p "
        "ON p.id = t.trx_mysql_thread_id WHERE t.trx_state = 'LOCK WAIT' AND p.db = database()",
    }
    time.sleep(0.15)  # asked more often, InnoDB repeats what it has said before
    with engine.connect() as connection:
        backend = engine.dialect.name.replace("mariadb", "mysql")
        return connection.exec_driver_sql(waits[backend]).scalar()
