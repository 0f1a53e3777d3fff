"""A job waits for the commit of a transaction that has written, and shares its fate."""

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from flask_jobs import transactions
from flask_jobs.envelope import Envelope
from flask_jobs.errors import PushFailed
from flask_jobs.ledger import Reason
from flask_jobs.pushes import Push


def not_stored(name):
    """The error of a sink that could not store the job of this name, which is its id as well."""
    return PushFailed(
        f"{name} is not stored.", packages=[Push(Envelope(name, name, "default", "{}"))], ids=[name], causes=[]
    )


def test_a_commit_releases_the_jobs_in_the_order_of_their_dispatch(shop):
    shop.add("paid")
    shop.dispatch("A")
    shop.dispatch("B", "C")
    assert shop.outbox.log == []

    shop.session.commit()

    assert shop.outbox.log == [("after", ["A", "B", "C"])]
    assert shop.orders == ["paid"]


def test_the_jobs_are_released_when_the_data_is_visible_and_the_session_is_free(shop, model):
    shop.add("paid")
    shop.dispatch("A")
    seen = []
    shop.outbox.look_after = lambda: seen.append((shop.orders, shop.session.scalars(sa.select(model.state)).all()))

    shop.session.commit()

    assert seen == [(["paid"], ["paid"])]


def test_a_rollback_discards_the_jobs_in_one_call_with_its_reason(shop):
    shop.add("paid")
    shop.dispatch("A")
    shop.dispatch("B")

    shop.session.rollback()

    assert shop.outbox.log == [("discarded", ["A", "B"])]
    assert shop.outbox.reasons == [Reason.ROLLED_BACK]


def test_f13_closing_the_session_without_a_commit_discards_the_jobs(shop):
    shop.add("paid")
    shop.session.flush()
    shop.dispatch("A")

    shop.session.close()

    assert shop.outbox.log == [("discarded", ["A"])]
    assert shop.outbox.reasons == [Reason.CLOSED]


@pytest.mark.parametrize("way", ["reset", "invalidate"])
def test_f13_resetting_or_invalidating_the_session_discards_the_jobs(shop, way):
    shop.add("paid")
    shop.dispatch("A")

    getattr(shop.session, way)()

    assert shop.outbox.log == [("discarded", ["A"])]


@pytest.mark.parametrize("kind", ["flask_sqlalchemy", "flask_sqlalchemy_lite", "scoped_session"])
def test_f13_a_request_that_never_commits_discards_its_jobs(make_shop, kind):
    shop = make_shop(kind)

    @shop.app.get("/forget")
    def forget():
        shop.add("paid")
        shop.dispatch("A")
        return ""

    with shop.context():
        shop.app.test_client().get("/forget")
        shop.end()

    assert shop.outbox.log == [("discarded", ["A"])]
    assert shop.orders == []


@pytest.mark.parametrize("kind", ["flask_sqlalchemy", "flask_sqlalchemy_lite", "scoped_session"])
def test_f13_an_exception_out_of_a_request_discards_its_jobs(make_shop, kind):
    shop = make_shop(kind)

    @shop.app.get("/fail")
    def fail():
        shop.add("paid")
        shop.session.flush()
        shop.dispatch("A")
        raise ZeroDivisionError

    with shop.context():
        assert shop.app.test_client().get("/fail").status_code == 500
        shop.end()

    assert shop.outbox.log == [("discarded", ["A"])]
    assert shop.orders == []


def test_f13_a_discarded_job_can_be_dispatched_again_in_a_transaction_that_commits(shop):
    shop.add("lost")
    shop.dispatch("A")
    shop.session.rollback()

    shop.add("paid")
    shop.dispatch("A")
    shop.session.commit()

    assert shop.outbox.log == [("discarded", ["A"]), ("after", ["A"])]


def test_an_exception_out_of_a_begin_block_discards_the_jobs(shop):
    def fail():
        with shop.session.begin():
            shop.add("paid")
            shop.dispatch("A")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert shop.outbox.log == [("discarded", ["A"])]


def test_a_begin_block_releases_the_jobs_when_it_is_left(shop):
    with shop.session.begin():
        shop.add("paid")
        shop.dispatch("A")
        assert shop.outbox.log == []

    assert shop.outbox.log == [("after", ["A"])]
    assert shop.orders == ["paid"]


def test_each_of_two_transactions_in_a_row_releases_its_own(shop):
    shop.add("one")
    shop.dispatch("A")
    shop.session.commit()
    shop.add("two")
    shop.dispatch("B")
    shop.session.commit()
    shop.session.commit()

    assert shop.outbox.log == [("after", ["A"]), ("after", ["B"])]


def test_a_dispatch_behind_the_commit_goes_at_once(shop):
    shop.add("paid")
    shop.session.commit()

    assert not shop.dispatch("A")


def test_a_transaction_that_only_read_is_not_waited_for(shop, model):
    shop.add("paid")
    shop.session.commit()
    order = shop.session.scalars(sa.select(model)).one()
    assert order.state == "paid"
    assert shop.session.in_transaction()

    assert not shop.dispatch("A")


def test_the_call_can_wait_for_a_transaction_that_only_read(shop, model):
    shop.session.scalars(sa.select(model)).all()

    assert shop.dispatch("A", after_commit=True)
    shop.session.commit()

    assert shop.outbox.log == [("after", ["A"])]


def test_the_call_waits_for_nothing_where_no_transaction_is_open(shop):
    assert not shop.dispatch("A", after_commit=True)


def test_the_call_can_refuse_to_wait(shop):
    shop.add("paid")

    assert not shop.dispatch("A", after_commit=False)


def test_the_connection_can_be_set_not_to_wait(shop):
    shop.add("paid")

    assert not transactions.waits(shop.session, shop.outbox, call=None, default=False)
    assert transactions.waits(shop.session, shop.outbox, call=True, default=False)


def test_without_a_session_nothing_is_waited_for(shop):
    assert not transactions.waits(None, shop.outbox, call=True, default=True)


WRITES = {
    "a new object": lambda s, m: s.add(m(state="x")),
    "a flushed object": lambda s, m: (s.add(m(state="x")), s.flush()),
    "a changed object": lambda s, m: setattr(s.get(m, 1), "state", "x"),
    "a deleted object": lambda s, m: s.delete(s.get(m, 1)),
    "a flushed change": lambda s, m: (setattr(s.get(m, 1), "state", "x"), s.flush()),
    "an autoflushed object": lambda s, m: (s.add(m(state="x")), s.scalars(sa.select(m)).all()),
    "an ORM update": lambda s, m: s.execute(sa.update(m).values(state="x")),
    "a bulk insert": lambda s, m: s.execute(sa.insert(m), [{"state": "x"}, {"state": "y"}]),
    "a legacy bulk insert": lambda s, m: s.bulk_insert_mappings(m, [{"state": "x"}]),
    "bulk saved objects": lambda s, m: s.bulk_save_objects([m(state="x")]),
    "a Core insert": lambda s, m: s.execute(m.__table__.insert().values(state="x")),
    "a Core delete": lambda s, m: s.execute(m.__table__.delete()),
    "an insert that returns": lambda s, m: s.scalars(sa.insert(m).returning(m), [{"state": "x"}]).all(),
    "a textual insert": lambda s, m: s.execute(sa.text("INSERT INTO orders (state) VALUES ('x')")),
    "a textual pragma": lambda s, m: s.execute(sa.text("PRAGMA user_version")),
    "a table made": lambda s, m: s.execute(sa.text("CREATE TABLE extra (id INTEGER)")),
    "a row locked": lambda s, m: s.scalars(sa.select(m).with_for_update()).all(),
    "an object locked": lambda s, m: s.get(m, 1, with_for_update=True),
    "the session's connection": lambda s, m: s.connection().execute(m.__table__.insert().values(state="x")),
    "a driver's statement": lambda s, m: s.connection().exec_driver_sql("INSERT INTO orders (state) VALUES ('x')"),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_every_kind_of_write_is_waited_for(make_shop, model, write):
    shop = make_shop()
    with shop.context():
        shop.add("there")
        shop.session.commit()
        write(shop.session, model)

        assert shop.dispatch("A")
        shop.session.commit()

    assert shop.outbox.log == [("after", ["A"])]


READS = {
    "an object by key": lambda s, m: s.get(m, 1),
    "an object loaded again": lambda s, m: s.refresh(s.get(m, 1)),
    "an ORM select": lambda s, m: s.scalars(sa.select(m)).all(),
    "a legacy query": lambda s, m: s.query(m).filter_by(state="there").count(),
    "a Core select": lambda s, m: s.execute(sa.select(m.__table__.c.id)).all(),
    "a union": lambda s, m: s.execute(sa.union(sa.select(m.id), sa.select(m.id))).all(),
    "a common table expression": lambda s, m: s.execute(sa.select(sa.select(m.id).cte("some").c.id)).all(),
    "a textual select": lambda s, m: s.execute(sa.text("  select id from orders")).all(),
    "objects by text": lambda s, m: s.scalars(sa.select(m).from_statement(sa.text("SELECT * FROM orders"))).all(),
    "the session's connection": lambda s, m: s.connection().execute(sa.select(m.id)).all(),
    "a driver's select": lambda s, m: s.connection().exec_driver_sql("SELECT 1").all(),
    "an empty savepoint": lambda s, m: s.begin_nested().commit(),
    "a savepoint that only read": lambda s, m: (s.begin_nested(), s.get(m, 1), s.get_nested_transaction().rollback()),
    "the same value set again": lambda s, m: setattr(s.get(m, 1), "state", s.get(m, 1).state),
    "an empty flush": lambda s, m: s.flush(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_nothing_that_only_reads_is_waited_for(make_shop, model, read):
    shop = make_shop()
    with shop.context():
        shop.add("there")
        shop.session.commit()
        read(shop.session, model)

        assert not shop.dispatch("A")


def test_what_a_transaction_wrote_is_forgotten_with_it(shop, model):
    shop.add("paid")
    shop.session.commit()
    shop.add("other")
    shop.session.flush()
    shop.session.rollback()
    shop.session.scalars(sa.select(model)).all()

    assert not shop.dispatch("A")


@pytest.mark.parametrize("expire", [True, False])
def test_objects_expire_on_commit_as_the_session_says(make_shop, expire):
    shop = make_shop(expire_on_commit=expire)
    with shop.context():
        order = shop.add("paid")
        shop.dispatch("A")
        states = []
        shop.outbox.look_after = lambda: states.append(sa.inspect(order).expired)

        shop.session.commit()

        assert states == [expire]
        assert order.state == "paid"


def test_an_error_behind_the_commit_leaves_the_data_and_the_session_in_order(shop):
    shop.add("paid")
    shop.dispatch("A")
    shop.outbox.error_after = not_stored("A")

    with pytest.raises(PushFailed, match="A is not stored"):
        shop.session.commit()

    assert shop.orders == ["paid"]
    shop.add("next")
    shop.session.commit()
    assert shop.orders == ["paid", "next"]


def test_an_error_behind_a_begin_block_leaves_the_session_in_order(shop):
    def pay():
        with shop.session.begin():
            shop.add("paid")
            shop.dispatch("A")

    shop.outbox.error_after = not_stored("A")
    with pytest.raises(PushFailed):
        pay()

    with shop.session.begin():
        shop.add("next")
    assert shop.orders == ["paid", "next"]


def test_an_error_behind_the_block_of_a_session_factory_leaves_the_data(make_shop, model, make_outbox):
    shop = make_shop("sessionmaker")
    outbox = make_outbox()
    outbox.error_after = not_stored("A")

    def pay():
        with shop.factory.begin() as session:
            session.add(model(state="paid"))
            transactions.defer(session, outbox, ["A"])

    with pytest.raises(PushFailed):
        pay()

    assert shop.orders == ["paid"]


def test_all_sinks_are_tried_before_one_error_names_what_is_missing(shop, make_outbox):
    first, second, third = make_outbox(), make_outbox(), make_outbox()
    first.error_after = not_stored("A")
    second.error_after = not_stored("B")
    shop.add("paid")
    for job, outbox in (("A", first), ("B", second), ("C", third)):
        shop.dispatch(job, to=outbox)

    with pytest.raises(PushFailed, match=r"A is not stored\. B is not stored\.") as caught:
        shop.session.commit()

    assert caught.value.ids == ("A", "B")
    assert third.log == [("after", ["C"])]


def test_a_release_that_is_cut_short_tells_what_was_not_tried(shop, make_outbox):
    first, second = make_outbox(), make_outbox()
    first.error_after = KeyboardInterrupt()
    shop.add("paid")
    shop.dispatch("A", to=first)
    shop.dispatch("B", to=second)

    with pytest.raises(KeyboardInterrupt):
        shop.session.commit()

    assert second.log == [("discarded", ["B"])]
    assert second.reasons == [Reason.CUT_SHORT]


def test_a_failed_commit_discards_the_jobs(shop):
    shop.add("paid")
    shop.session.commit()
    shop.add("paid")
    shop.dispatch("A")

    with pytest.raises(IntegrityError):
        shop.session.commit()
    shop.session.rollback()

    assert shop.outbox.log == [("discarded", ["A"])]


def test_a_dispatch_beside_a_failed_flush_does_not_wait_for_its_rollback(shop):
    shop.add("paid")
    shop.session.commit()
    shop.add("paid")
    with pytest.raises(IntegrityError):
        shop.session.flush()

    assert not shop.dispatch("tell the operator")
    assert not shop.dispatch("tell the operator", after_commit=True)
    shop.add("too late")
    assert not shop.dispatch("tell the operator")


def test_a_block_defers_before_any_transaction_has_begun(shop):
    with transactions.deferring(shop.outbox):
        assert shop.dispatch("A")
        shop.add("paid")
        assert shop.dispatch("B")
    assert shop.outbox.log == []

    shop.session.commit()

    assert shop.outbox.log == [("after", ["A", "B"])]


def test_a_block_defers_what_does_not_wait_by_default_but_not_what_refuses_to(shop):
    with transactions.deferring(shop.outbox):
        assert transactions.waits(shop.session, shop.outbox, call=None, default=False)
        assert not transactions.waits(shop.session, shop.outbox, call=False, default=True)
    assert not transactions.waits(shop.session, shop.outbox, call=None, default=True)


def test_a_block_defers_for_its_own_sink_only(shop, make_outbox):
    with transactions.deferring(make_outbox()):
        assert not shop.dispatch("A")


def test_blocks_can_be_nested(shop):
    with transactions.deferring(shop.outbox):
        with transactions.deferring(shop.outbox):
            assert shop.dispatch("A")
        assert shop.dispatch("B")


def test_what_a_block_deferred_is_discarded_when_the_session_ends_without_a_commit(shop):
    with transactions.deferring(shop.outbox):
        shop.dispatch("A")

    shop.end()

    assert shop.outbox.log == [("discarded", ["A"])]
    assert shop.outbox.reasons == [Reason.CLOSED]


def test_a_listener_that_fails_behind_the_commit_does_not_turn_it_into_a_rollback(shop):
    @sa.event.listens_for(shop.session, "after_commit")
    def fail(session):
        raise ZeroDivisionError

    shop.add("paid")
    shop.dispatch("A")
    with pytest.raises(ZeroDivisionError):
        shop.session.commit()
    shop.session.close()

    assert shop.outbox.log == [("after", ["A"])]


@pytest.mark.parametrize("name", ["before_commit", "after_flush", "after_flush_postexec", "after_commit"])
def test_a_job_dispatched_by_a_listener_of_the_commit_is_not_lost(shop, name):
    shop.add("paid")
    shop.session.flush()
    shop.add("more")
    sa.event.listen(shop.session, name, lambda session, *_: shop.dispatch("A"), once=True)

    shop.session.commit()

    assert shop.outbox.log == [("after", ["A"])]
