"""A session on a connection with a transaction of its own: the session's outermost commit is what counts."""

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

from flask_jobs import transactions
from flask_jobs.ledger import Reason

MODES = ("create_savepoint", "rollback_only", "conditional_savepoint")


@pytest.fixture
def shop(make_shop):
    return make_shop()


@pytest.fixture
def connection(shop):
    """A connection in a transaction that the test rolls back, as in many a test suite."""
    transactions.begin_before_savepoint(shop.engine)
    with shop.engine.connect() as connection:
        connection.begin()
        yield connection


@pytest.fixture
def make_session(connection):
    sessions = []

    def make(mode):
        factory = sessionmaker(connection, join_transaction_mode=mode)
        transactions.watch(factory)
        sessions.append(factory())
        return sessions[-1]

    yield make
    for session in sessions:
        session.close()


@pytest.mark.parametrize("mode", MODES)
def test_the_commit_of_the_session_releases_the_jobs(make_session, make_outbox, model, mode):
    session, outbox = make_session(mode), make_outbox()
    session.add(model(state="paid"))
    assert transactions.waits(session, outbox, call=None, default=True)
    transactions.defer(session, outbox, ["A"])
    with session.begin_nested():
        transactions.defer(session, outbox, ["B"])
    assert outbox.log == []

    session.commit()

    assert outbox.log == [("after", ["A", "B"])]


@pytest.mark.parametrize("mode", MODES)
def test_a_rollback_of_the_session_discards_the_jobs(make_session, make_outbox, model, mode):
    session, outbox = make_session(mode), make_outbox()
    session.add(model(state="paid"))
    transactions.defer(session, outbox, ["A"])

    session.rollback()

    assert outbox.log == [("discarded", ["A"])]


@pytest.mark.parametrize("mode", MODES)
def test_jobs_in_the_same_database_share_the_fate_of_the_outer_transaction(
    shop, connection, make_session, make_outbox, model, mode
):
    session, outbox = make_session(mode), make_outbox(shop.engine)
    session.add(model(state="paid"))
    transactions.defer(session, outbox, ["A"])

    session.commit()
    assert outbox.log == [("within", ["A"]), ("committed", ["A"])]
    assert connection.exec_driver_sql("SELECT job FROM outbox").scalars().all() == ["A"]
    connection.rollback()

    assert (shop.orders, shop.jobs) == ([], [])


def test_a_session_that_controls_the_outer_transaction_commits_both(shop, connection, make_session, make_outbox, model):
    session, outbox = make_session("control_fully"), make_outbox(shop.engine)
    session.add(model(state="paid"))
    transactions.defer(session, outbox, ["A"])

    session.commit()

    assert outbox.log == [("within", ["A"]), ("committed", ["A"])]
    assert (shop.orders, shop.jobs) == (["paid"], ["A"])


def test_an_outer_commit_is_not_the_session_s(shop, connection, make_session, make_outbox, model):
    session, outbox = make_session("rollback_only"), make_outbox(shop.engine)
    session.add(model(state="paid"))
    session.flush()
    transactions.defer(session, outbox, ["A"])

    connection.commit()
    assert outbox.log == []
    session.close()

    assert outbox.log == [("discarded", ["A"])]
    assert shop.jobs == []


def test_a_session_on_a_connection_without_a_transaction_commits_its_own(shop, make_outbox, model):
    outbox = make_outbox(shop.engine)
    with shop.engine.connect() as connection, Session(connection) as session:
        transactions.watch(session)
        session.add(model(state="paid"))
        transactions.defer(session, outbox, ["A"])
        session.commit()

    assert (shop.orders, shop.jobs) == (["paid"], ["A"])


def test_an_error_on_such_a_connection_leaves_nothing_for_its_next_transaction(shop, make_outbox, model):
    outbox = make_outbox(shop.engine)
    outbox.error_within = ZeroDivisionError()
    with shop.engine.connect() as connection, Session(connection) as session:
        transactions.watch(session)
        session.add(model(state="lost"))
        transactions.defer(session, outbox, ["A"])
        with pytest.raises(ZeroDivisionError):
            session.commit()
        session.rollback()
        connection.rollback()
        session.add(model(state="paid"))
        session.commit()

    assert (shop.orders, shop.jobs) == (["paid"], [])


def test_an_error_in_the_outer_transaction_reaches_the_caller_and_names_the_jobs(
    shop, connection, make_session, make_outbox, model
):
    session, outbox = make_session("create_savepoint"), make_outbox(shop.engine)
    outbox.error_within = ZeroDivisionError()
    session.add(model(state="paid"))
    transactions.defer(session, outbox, ["A"])

    with pytest.raises(ZeroDivisionError):
        session.commit()

    session.add(model(state="next"))
    session.commit()

    assert outbox.told("discarded") == [["A"]]
    assert outbox.reasons == [Reason.REFUSED]


def test_with_another_engine_written_to_the_jobs_do_not_join_the_outer_transaction(
    shop, connection, make_outbox, model, old_model
):
    outbox = make_outbox(shop.engine)
    factory = sessionmaker(connection, binds={old_model: shop.archive}, join_transaction_mode="rollback_only")
    transactions.watch(factory)
    with factory() as session:
        session.add_all([model(state="paid"), old_model()])
        transactions.defer(session, outbox, ["A"])
        session.commit()

    assert outbox.log == [("after", ["A"])]


def test_a_transaction_that_only_read_joins_the_outer_one_all_the_same(shop, make_session, make_outbox, model):
    session, outbox = make_session("rollback_only"), make_outbox(shop.engine)
    session.scalars(sa.select(model)).all()
    transactions.defer(session, outbox, ["A"])

    session.commit()

    assert outbox.log == [("within", ["A"]), ("committed", ["A"])]


def test_on_a_connection_without_a_transaction_jobs_of_a_read_follow_the_commit(shop, make_outbox, model):
    outbox = make_outbox(shop.engine)
    with shop.engine.connect() as connection, Session(connection) as session:
        transactions.watch(session)
        session.scalars(sa.select(model)).all()
        transactions.defer(session, outbox, ["A"])
        session.commit()

    assert outbox.log == [("after", ["A"])]


def test_what_one_session_writes_on_a_connection_counts_for_all_that_joined_it(make_session, make_outbox, model):
    first, second = make_session("rollback_only"), make_session("rollback_only")
    first.scalars(sa.select(model)).all()
    second.scalars(sa.select(model)).all()

    first.execute(sa.insert(model).values(state="paid"))

    assert transactions.has_written(first)
    assert transactions.has_written(second)


def test_a_connection_used_again_says_nothing_of_the_session_before(make_session, connection, model):
    first, second = make_session("rollback_only"), make_session("rollback_only")
    first.add(model(state="paid"))
    first.commit()
    second.scalars(sa.select(model)).all()

    connection.execute(sa.select(model.id)).all()

    assert not transactions.has_written(second)
    assert not transactions.has_written(first)
