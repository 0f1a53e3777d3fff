"""Unique jobs pushed within the app's own transaction, while others push the same."""

import threading

import pytest
import sqlalchemy as sa

from flask_jobs.drivers.database import DatabaseDriver
from flask_jobs.testing.contract.keys import digest, keyed


@pytest.fixture
def usual_engine(app_engine):
    """An app's engine with the isolation that its server has by default."""
    usual = {"postgresql": "READ COMMITTED"}.get(app_engine.dialect.name)
    return app_engine if usual is None else app_engine.execution_options(isolation_level=usual)


@pytest.fixture
def driver(engine, usual_engine):
    driver = DatabaseDriver(engine, app_engine=usual_engine, owns_engine=False)
    yield driver
    driver.close()


def test_f13_a_key_taken_since_the_transaction_began_is_answered_with_its_holder(driver, usual_engine):
    holder = keyed()
    with usual_engine.begin() as connection:
        connection.execute(sa.text("SELECT count(*) FROM flask_jobs")).all()  # what it sees of others ends here
        driver.push([holder])

        answers = driver.push_within(connection, [keyed()])

    assert [(answer.stored, answer.holder) for answer in answers] == [(False, holder.envelope.id)]
    assert driver.size("default").ready == 1


@pytest.mark.parametrize("ends_by", ["commit", "rollback"])
def test_f13_who_wants_a_key_waits_for_the_transaction_that_has_taken_it(driver, usual_engine, ends_by):
    first, other, answers = keyed(), keyed(), []
    with usual_engine.connect() as connection:
        driver.push_within(connection, [first])
        waiting = threading.Thread(target=lambda: answers.extend(driver.push([other])))
        waiting.start()
        waiting.join(0.3)
        before = list(answers)
        getattr(connection, ends_by)()
        waiting.join()

    assert before == []
    holder = first.envelope.id if ends_by == "commit" else None
    assert [(answer.stored, answer.holder) for answer in answers] == [(holder is None, holder)]
    assert driver.holder(digest(other)) == (holder or other.envelope.id)
