"""Jobs belong to the savepoint that they were dispatched in; only the outermost commit releases them."""

import threading

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from flask_jobs.ledger import Reason


def dispatch_tree(shop):
    """A in the outer block, B in a released savepoint, D in one inside B's, C in one that is rolled back."""
    shop.add("outer")
    shop.dispatch("A")
    with shop.session.begin_nested():
        shop.add("released")
        shop.dispatch("B")
        with shop.session.begin_nested():
            shop.add("inner")
            shop.dispatch("D")
    savepoint = shop.session.begin_nested()
    shop.add("undone")
    shop.dispatch("C")
    savepoint.rollback()


@pytest.fixture(params=["elsewhere", "in the app's database"])
def stored(request, shop):
    """The shop with its jobs stored elsewhere, or in the app's own transaction."""
    if request.param == "in the app's database":
        shop.share()
    return shop


def handed_over(shop):
    return [job for what in ("within", "after") for jobs in shop.outbox.told(what) for job in jobs]


def test_f32_a_commit_releases_all_but_the_rolled_back_savepoint_in_order(stored):
    dispatch_tree(stored)
    assert handed_over(stored) == []
    assert (stored.orders, stored.jobs) == ([], [])

    stored.session.commit()

    assert handed_over(stored) == ["A", "B", "D"]
    assert stored.orders == ["outer", "released", "inner"]
    assert stored.outbox.told("discarded") == [["C"]]
    assert stored.outbox.reasons == [Reason.SAVEPOINT]


def test_f32_a_rollback_discards_all_in_one_call(stored):
    dispatch_tree(stored)

    stored.session.rollback()

    assert [set(jobs) for jobs in stored.outbox.told("discarded")] == [{"A", "B", "C", "D"}]
    assert handed_over(stored) == []
    assert (stored.orders, stored.jobs) == ([], [])


def test_f32_an_exception_discards_all_in_one_call(stored):
    def fail():
        with stored.session.begin():
            dispatch_tree(stored)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert [set(jobs) for jobs in stored.outbox.told("discarded")] == [{"A", "B", "C", "D"}]
    assert (stored.orders, stored.jobs) == ([], [])


def test_f32_the_end_of_the_request_discards_all_in_one_call(stored):
    dispatch_tree(stored)

    stored.end()

    assert [set(jobs) for jobs in stored.outbox.told("discarded")] == [{"A", "B", "C", "D"}]
    assert (stored.orders, stored.jobs) == ([], [])


def test_f32_with_a_second_engine_written_to_the_jobs_follow_the_commit(shop, old_model):
    shop.share()
    dispatch_tree(shop)
    shop.session.add(old_model())

    shop.session.commit()

    assert shop.outbox.told("after") == [["A", "B", "D"]]
    assert shop.jobs == []


def test_f32_with_a_second_engine_a_rollback_discards_all(shop, old_model):
    shop.share()
    shop.session.add(old_model())
    dispatch_tree(shop)

    shop.session.rollback()

    assert [set(jobs) for jobs in shop.outbox.told("discarded")] == [{"A", "B", "C", "D"}]


def test_a_second_engine_written_to_in_a_rolled_back_savepoint_does_not_count(shop, old_model):
    shop.share()
    shop.add("paid")
    shop.dispatch("A")
    savepoint = shop.session.begin_nested()
    shop.session.add(old_model())
    shop.session.flush()
    savepoint.rollback()

    shop.session.commit()

    assert shop.outbox.told("within") == [["A"]]


@pytest.mark.parametrize("kind", ["flask_sqlalchemy", "flask_sqlalchemy_lite", "scoped_session"])
def test_f32_each_thread_has_its_own_transaction(make_shop, make_outbox, kind):
    shop = make_shop(kind)
    outboxes = {"commit": make_outbox(), "rollback": make_outbox()}
    both_have_dispatched = threading.Barrier(2, timeout=20)

    def work(ending):
        with shop.context():
            # Only flushed when both wait: one SQLite file takes one writer at a time.
            shop.add(ending)
            shop.dispatch(ending, to=outboxes[ending])
            both_have_dispatched.wait()
            getattr(shop.session, ending)()

    threads = [threading.Thread(target=work, args=(ending,)) for ending in outboxes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert outboxes["commit"].log == [("after", ["commit"])]
    assert outboxes["rollback"].log == [("discarded", ["rollback"])]
    assert shop.orders == ["commit"]


def test_a_commit_with_savepoints_still_open_commits_them_all(stored):
    stored.add("outer")
    stored.dispatch("A")
    stored.session.begin_nested()
    stored.dispatch("B")
    stored.session.begin_nested()
    stored.add("inner")
    stored.dispatch("C")

    stored.session.commit()

    assert handed_over(stored) == ["A", "B", "C"]
    assert stored.orders == ["outer", "inner"]


def test_a_begin_block_left_with_savepoints_still_open_commits_them_all(stored):
    with stored.session.begin():
        stored.add("outer")
        stored.dispatch("A")
        stored.session.begin_nested()
        stored.add("inner")
        stored.dispatch("B")

    assert handed_over(stored) == ["A", "B"]
    assert stored.orders == ["outer", "inner"]


def test_rolling_back_an_outer_savepoint_discards_those_released_and_open_within(shop):
    shop.add("outer")
    shop.dispatch("A")
    outer = shop.session.begin_nested()
    shop.dispatch("B")
    with shop.session.begin_nested():
        shop.dispatch("C")
    shop.session.begin_nested()
    shop.dispatch("D")
    outer.rollback()
    shop.dispatch("E")

    shop.session.commit()

    assert shop.outbox.told("after") == [["A", "E"]]
    assert [set(jobs) for jobs in shop.outbox.told("discarded")] == [{"B", "C", "D"}]


def test_a_closed_savepoint_is_a_rolled_back_one(shop):
    shop.add("outer")
    savepoint = shop.session.begin_nested()
    shop.dispatch("A")
    savepoint.close()
    shop.session.commit()

    assert shop.outbox.log == [("discarded", ["A"])]


def test_what_only_a_rolled_back_savepoint_wrote_is_not_waited_for(shop):
    savepoint = shop.session.begin_nested()
    shop.add("undone")
    shop.session.flush()
    savepoint.rollback()

    assert not shop.dispatch("A")


def test_what_a_released_savepoint_wrote_is_waited_for(shop):
    with shop.session.begin_nested():
        shop.add("kept")

    assert shop.dispatch("A")


def test_a_failed_savepoint_lets_a_job_of_its_handler_wait_for_the_outer_commit(shop):
    shop.add("paid")
    shop.session.flush()
    savepoint = shop.session.begin_nested()
    shop.dispatch("lost")
    shop.add("paid")
    with pytest.raises(IntegrityError):
        shop.session.flush()
    assert shop.dispatch("kept")
    savepoint.rollback()

    shop.session.commit()

    assert shop.outbox.told("after") == [["kept"]]
    assert shop.outbox.told("discarded") == [["lost"]]


def test_a_failed_savepoint_in_a_transaction_that_only_read_is_not_waited_for(shop, model):
    shop.add("paid")
    shop.session.commit()
    shop.session.scalars(sa.select(model)).all()
    shop.session.begin_nested()
    shop.add("paid")
    with pytest.raises(IntegrityError):
        shop.session.flush()

    assert not shop.dispatch("tell the operator")
