"""Watching keeps nothing alive, and what nobody watched from its beginning is waited for."""

import gc
import subprocess
import sys
import threading
import weakref

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from flask_sqlalchemy_lite import SQLAlchemy as SQLAlchemyLite
from sqlalchemy.orm import Session, sessionmaker

from flask_jobs import transactions
from flask_jobs.ledger import Ledger, Reason
from flask_jobs.sessions import sessions_of, watch_from_first_context


class Keeper:
    """A sink that belongs to an app, as the library's own does."""

    def __init__(self, app):
        self.app = app

    def shares(self, item, engine):
        return False

    def after(self, items):
        pass

    def discarded(self, items, reason):
        pass


def use_once(app):
    """What an app does with the library: a commit, a rollback and a session left alone."""
    sessions = sessions_of(app)
    with app.app_context():
        sessions.watch()
        for ending in ("commit", "rollback", "flush"):
            sessions.current().execute(sa.text("CREATE TABLE IF NOT EXISTS x (id INTEGER)"))
            transactions.defer(sessions.current(), Keeper(app), ["A"])
            getattr(sessions.current(), ending)()
        engines = sessions.engines()
    for engine in engines:
        engine.dispose()


def flask_sqlalchemy_app(db):
    app = Flask("one of many")
    app.config["SQLALCHEMY_DATABASE_URI"] = "sqlite://"
    db.init_app(app)
    return app


def lite_app(db):
    app = Flask("one of many")
    app.config["SQLALCHEMY_ENGINES"] = {"default": "sqlite://"}
    db.init_app(app)
    return app


@pytest.mark.parametrize(
    ("db", "make_app"), [(SQLAlchemy(), flask_sqlalchemy_app), (SQLAlchemyLite(), lite_app)], ids=["full", "lite"]
)
def test_200_apps_on_one_extension_object_come_and_go(db, make_app):
    apps, engines = [], []
    for _ in range(200):
        app = make_app(db)
        apps.append(weakref.ref(app))
        with app.app_context():
            engines.append(weakref.ref(db.engine))
        use_once(app)
        del app

    gc.collect()

    assert [ref() for ref in apps if ref() is not None] == []
    assert [ref() for ref in engines if ref() is not None] == []


def test_every_app_on_one_extension_object_is_watched(tmp_path):
    db = SQLAlchemyLite()
    for number in range(8):
        app = Flask("one of many")
        app.config["SQLALCHEMY_ENGINES"] = {"default": f"sqlite:///{tmp_path / str(number)}.db"}
        db.init_app(app)
        with app.app_context():
            sessions_of(app).watch()
            db.session.execute(sa.text("SELECT 1"))
            assert not transactions.has_written(db.session)
            db.session.execute(sa.text("CREATE TABLE x (id INTEGER)"))
            assert transactions.has_written(db.session)
            db.session.rollback()
            db.engine.dispose()
        del app
        gc.collect()


def test_sessions_and_their_connections_are_let_go_of(make_shop, make_outbox, model):
    shop = make_shop("sessionmaker")
    gone = []
    for number in range(50):
        session = shop.factory()
        session.add(model(state=str(number)))
        transactions.defer(session, make_outbox(), ["A"])
        gone += [weakref.ref(session), weakref.ref(session.connection())]
        session.commit()
        session.close()
        del session

    gc.collect()

    assert [ref() for ref in gone if ref() is not None] == []


def test_a_long_lived_connection_keeps_nothing_of_the_sessions_that_joined_it(make_shop, model):
    shop = make_shop("sessionmaker")
    factory = sessionmaker(join_transaction_mode="rollback_only")
    transactions.watch(factory)
    with shop.engine.connect() as connection, connection.begin():
        for _ in range(20):
            with factory(bind=connection) as session:
                session.scalars(sa.select(model)).all()
                session.commit()
        del session
        gc.collect()

        assert sum(isinstance(kept, Ledger) for kept in gc.get_objects()) <= 1


def test_a_session_dropped_without_an_end_tells_of_its_jobs(make_shop, make_outbox, model):
    shop, outbox = make_shop("sessionmaker"), make_outbox()
    session = Session(shop.engine)
    session.add(model(state="paid"))
    transactions.defer(session, outbox, ["A"])

    del session
    gc.collect()

    assert outbox.log == [("discarded", ["A"])]
    assert outbox.reasons == [Reason.DROPPED]


def test_a_transaction_that_was_open_before_it_was_watched_is_waited_for(make_shop, make_outbox, model):
    shop, outbox = make_shop("sessionmaker"), make_outbox()
    with Session(shop.engine) as session:
        session.add(model(state="paid"))
        session.flush()
        savepoint = session.begin_nested()

        assert transactions.waits(session, outbox, call=None, default=True)
        transactions.defer(session, outbox, ["lost"])
        savepoint.rollback()
        assert transactions.waits(session, outbox, call=None, default=True)
        transactions.defer(session, outbox, ["A"])
        session.commit()

    assert outbox.log == [("discarded", ["lost"]), ("after", ["A"])]


def test_a_savepoint_within_such_a_transaction_is_followed(make_shop, make_outbox, model):
    shop, outbox = make_shop("sessionmaker"), make_outbox()
    with Session(shop.engine) as session:
        session.add(model(state="paid"))
        session.flush()
        transactions.watch(session)
        with session.begin_nested():
            transactions.defer(session, outbox, ["A"])
        session.commit()

    assert outbox.log == [("after", ["A"])]


def test_the_jobs_of_such_a_transaction_follow_the_commit(make_shop, make_outbox, model, old_model):
    shop = make_shop("sessionmaker")
    outbox = make_outbox(shop.archive)
    with Session(shop.engine, binds={old_model: shop.archive}) as session:
        session.add(model(state="paid"))
        session.flush()
        transactions.defer(session, outbox, ["A"])
        session.add(old_model())
        session.commit()

    assert outbox.log == [("after", ["A"])]


def test_they_do_so_on_a_connection_in_a_transaction_too(make_shop, make_outbox, model, old_model):
    shop = make_shop("sessionmaker")
    outbox = make_outbox(shop.archive)
    with shop.archive.connect() as connection, connection.begin() as outer:
        with Session(shop.engine, binds={old_model: connection}, join_transaction_mode="rollback_only") as session:
            session.add(model(state="paid"))
            session.flush()
            transactions.defer(session, outbox, ["A"])
            session.add(old_model())
            session.commit()
        outer.rollback()

    assert outbox.log == [("after", ["A"])]


def test_a_session_that_defers_before_it_begins_is_known_from_its_start(make_shop, make_outbox, model):
    shop = make_shop("sessionmaker")
    outbox = make_outbox(shop.engine)
    with Session(shop.engine) as session:
        transactions.defer(session, outbox, ["A"])
        session.add(model(state="paid"))
        session.commit()

    assert outbox.log == [("within", ["A"]), ("committed", ["A"])]


def test_the_next_transaction_of_such_a_session_is_known_from_its_start(make_shop, make_outbox, model):
    shop, outbox = make_shop("sessionmaker"), make_outbox()
    with Session(shop.engine) as session:
        session.scalars(sa.select(model)).all()
        assert transactions.waits(session, outbox, call=None, default=True)
        session.commit()

        session.scalars(sa.select(model)).all()
        assert not transactions.waits(session, outbox, call=None, default=True)


def test_one_session_makes_its_whole_factory_known(make_shop, make_outbox, model):
    shop, outbox = make_shop("sessionmaker"), make_outbox()
    factory = sessionmaker(shop.engine)
    with factory() as session:
        transactions.waits(session, outbox, call=True, default=True)
        session.scalars(sa.select(model)).all()
        transactions.waits(session, outbox, call=True, default=True)

    with factory() as session:
        session.scalars(sa.select(model)).all()
        assert not transactions.waits(session, outbox, call=None, default=True)


def test_sessions_are_known_from_the_first_context_of_the_app_on(tmp_path, model, make_outbox):
    db, app = SQLAlchemy(), Flask("late")
    receiver = watch_from_first_context(app, lambda: sessions_of(app))
    app.config["SQLALCHEMY_DATABASE_URI"] = f"sqlite:///{tmp_path / 'late.db'}"
    db.init_app(app)

    with app.app_context():
        db.session.execute(sa.text("SELECT 1"))
        assert not transactions.waits(db.session(), make_outbox(), call=None, default=True)
        db.engine.dispose()
    assert receiver is not None


def test_a_session_that_nobody_watches_is_left_alone(make_shop, model):
    shop = make_shop("sessionmaker")
    with Session(shop.engine) as session, session.begin():
        session.add(model(state="paid"))
        with session.begin_nested():
            session.add(model(state="more"))

    assert session.info == {}
    assert shop.orders == ["paid", "more"]


def test_an_end_that_another_listener_hid_is_made_up_for_at_the_next_beginning(make_shop, make_outbox, model):
    shop, outbox = make_shop("sessionmaker"), make_outbox()
    factory = sessionmaker(shop.engine)
    transactions.watch(factory)

    @sa.event.listens_for(factory, "after_transaction_end", insert=True, once=True)
    def fail(session, transaction):
        raise ZeroDivisionError

    with factory() as session:
        transactions.defer(session, outbox, ["A"])
        with pytest.raises(ZeroDivisionError):
            session.commit()
        session.scalars(sa.select(model)).all()
        transactions.defer(session, outbox, ["B"])
        session.rollback()

    assert outbox.log == [("after", ["A"]), ("discarded", ["B"])]


LISTENERS_THAT_CAME_FIRST = """
import sqlalchemy as sa
from sqlalchemy.orm import Session, sessionmaker

factory = sessionmaker(sa.create_engine("sqlite://"))
for name in ("after_commit", "after_rollback", "after_transaction_end"):
    @sa.event.listens_for(factory, name)
    def fail(*arguments):
        raise ZeroDivisionError

from flask_jobs import transactions

class Printer:
    def after(self, items): print("after", *items)
    def discarded(self, items, reason): print("discarded", *items)

transactions.watch(factory)
for ending in ("commit", "rollback", "close"):
    session = factory()
    transactions.defer(session, Printer(), [ending])
    try:
        getattr(session, ending)()
    except ZeroDivisionError:
        pass
    try:
        session.close()
    except ZeroDivisionError:
        pass
"""


def test_listeners_that_fail_and_were_there_before_change_nothing():
    ran = subprocess.run(
        [sys.executable, "-c", LISTENERS_THAT_CAME_FIRST], capture_output=True, text=True, check=True, timeout=60
    )

    assert ran.stdout.split("\n")[:3] == ["after commit", "discarded rollback", "discarded close"]


def test_many_threads_may_begin_to_watch_at_once(make_shop, make_outbox, model):
    shop = make_shop("sessionmaker")
    factory = sessionmaker(shop.engine)
    outboxes = [make_outbox() for _ in range(8)]
    ready = threading.Barrier(8, timeout=20)

    def work(outbox):
        ready.wait()
        transactions.watch(factory)
        with factory() as session:
            session.scalars(sa.select(model)).all()
            transactions.defer(session, outbox, ["A"])
            session.commit()

    threads = [threading.Thread(target=work, args=(outbox,)) for outbox in outboxes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert [outbox.log for outbox in outboxes] == [[("after", ["A"])]] * 8
