"""A push whose answer was lost is repeated while its job is just being settled: the job does not come back."""

import threading

import pytest

from flask_jobs.envelope import Ack, Room
from flask_jobs.ids import new_id
from flask_jobs.stored import Sizes
from tests.faults.on_databases.test_what_servers_do_differently import waiting
from tests.faults.support import job
from tests.processes import wait_until

# On PostgreSQL a settlement is one statement: it is held up when it has removed the job and is about to note its end.
HOLDING_UP = {
    "postgresql": "SELECT pg_advisory_lock(1)",
    "mariadb": "SELECT id FROM flask_jobs FOR UPDATE",
}
TRIGGER = """
CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END';
CREATE TRIGGER waits BEFORE INSERT ON flask_jobs_ended FOR EACH ROW EXECUTE FUNCTION waits();
"""


@pytest.fixture(autouse=True)
def _waiting_before_an_end_is_noted(engine):
    if engine.dialect.name != "postgresql":
        yield
        return
    run(engine, TRIGGER)
    yield
    run(engine, "DROP FUNCTION waits CASCADE")


def run(engine, text):
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql(text)


@pytest.mark.parametrize("together", [1, 3])
def test_f06_a_push_that_is_repeated_in_the_instant_its_job_ends_stores_nothing(engine, open_driver, together):
    worker, producer, answers = open_driver(), open_driver(), []
    pushes = [job() for _ in range(together)]
    producer.push(pushes)
    (held,) = worker.pop(["default"], new_id(), Room()).reservations
    with engine.connect().execution_options(isolation_level="READ COMMITTED") as other:
        other.exec_driver_sql(HOLDING_UP[engine.dialect.name])
        settling = threading.Thread(target=lambda: worker.settle([Ack(held)]))
        repeating = threading.Thread(target=lambda: answers.extend(producer.push(pushes)))
        settling.start()
        wait_until(lambda: waiting(engine) == 1, what="the settlement")
        repeating.start()
        # It waits for the settlement, too, unless it knows already that there is nothing to store.
        wait_until(lambda: not repeating.is_alive() or waiting(engine) == 2, what="the repeated push")

        if engine.dialect.name == "postgresql":
            other.exec_driver_sql("SELECT pg_advisory_unlock_all()")
        other.rollback()

    settling.join(20)
    repeating.join(20)
    assert [pushed.stored for pushed in answers] == [False] * together
    assert producer.size("default") == Sizes(ready=together - 1)
