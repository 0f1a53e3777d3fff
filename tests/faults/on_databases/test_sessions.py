"""Sessions on servers: what one was told may be unknown to the next, and one that is long at work is not given up."""

import pytest
import sqlalchemy as sa

from flask_jobs.driver import PORTION
from flask_jobs.drivers.database.dialects import postgresql
from flask_jobs.envelope import Ack, Room
from flask_jobs.errors import StoreRefused
from flask_jobs.ids import new_id
from tests.databases import POSTGRESQL
from tests.faults.support import job

postgresql_alone = pytest.mark.parametrize("server", [POSTGRESQL], ids=["postgresql"], indirect=True)
with_each_client = pytest.mark.parametrize("client", ["psycopg", "psycopg2"])


@postgresql_alone
@with_each_client
def test_a_session_that_knows_no_prepared_statement_is_served_all_the_same(engine, open_driver, client):
    driver = open_driver(engine.url.set(drivername=f"postgresql+{client}"))
    before_each_use(driver.engine, "DEALLOCATE ALL")

    done = [work(driver) for _ in range(2)]

    assert done == [3, 3]


@postgresql_alone
@with_each_client
def test_what_was_prepared_in_a_transaction_that_failed_is_run_by_its_name(engine, open_driver, client):
    driver = open_driver(engine.url.set(drivername=f"postgresql+{client}"))
    driver.push([job(queue="other")])  # old notes are forgotten now, and not again for a while
    read_only, not_any_more = (f"SET default_transaction_read_only = {switch}" for switch in ("on", "off"))
    before_each_use(driver.engine, read_only, read_only, not_any_more)
    with pytest.raises(StoreRefused):
        driver.push([job(), job()])
    with pytest.raises(StoreRefused):
        driver.exchange([], ["default"], new_id(), Room(10))

    done = [work(driver) for _ in range(2)]

    assert done == [3, 3]
    assert prepared(driver.engine) >= 3


@postgresql_alone
@with_each_client
def test_an_idle_worker_looks_by_a_name_that_its_session_was_told_once(engine, open_driver, client):
    driver = open_driver(engine.url.set(drivername=f"postgresql+{client}"))
    driver.prepare()
    before = prepared(driver.engine)

    for _ in range(2):
        assert not driver.pop(["default"], new_id(), Room(1)).reservations

    assert prepared(driver.engine) == before + 1


def work(driver):
    """Push one and then several, take all and settle it: how many were done."""
    driver.push([job()])
    driver.push([job(), job()])
    room = Room(10, means={"shop.send-invoice": 0.001})
    popped = driver.exchange([], ["default"], new_id(), room).popped.reservations
    settled = driver.exchange([Ack(one) for one in popped], ["default"], new_id(), room)
    assert not settled.stale
    assert not settled.popped.reservations
    return len(popped)


def before_each_use(engine, *statements):
    """Run these before the next uses of a connection of the engine, the last one before all that follow."""
    left = list(statements)

    def use(connection, _entry, _proxy):
        connection.cursor().execute(left.pop(0) if len(left) > 1 else left[0])

    sa.event.listen(engine, "checkout", use)


def prepared(engine):
    with engine.connect() as connection:
        return connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar()


@postgresql_alone
def test_a_long_transaction_is_not_taken_for_a_server_that_has_stopped_answering(engine, open_driver, monkeypatch):
    monkeypatch.setattr(postgresql, "STATEMENT_SECONDS", -1)  # shut after a second
    driver = open_driver(engine.url)
    driver.push([job(queue="other")])
    with driver.engine.connect() as connection:
        connection.exec_driver_sql(
            "CREATE FUNCTION linger() RETURNS trigger LANGUAGE plpgsql "
            "AS 'BEGIN PERFORM pg_sleep(0.7); RETURN NULL; END'"
        )
        connection.exec_driver_sql("CREATE TRIGGER linger BEFORE INSERT ON flask_jobs EXECUTE FUNCTION linger()")

    pushed = driver.push([job() for _ in range(3 * PORTION)])

    assert all(one.stored for one in pushed)
