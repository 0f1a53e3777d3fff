"""How the app's sessions are found, made, put aside and removed."""

from contextlib import contextmanager, nullcontext
from threading import Thread

import pytest
import sqlalchemy as sa
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from flask_sqlalchemy_lite import SQLAlchemy as SQLAlchemyLite
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from flask_jobs.errors import ConfigurationError, InvalidArgument
from flask_jobs.sessions import NoSessions, named_session, sessions_of

KINDS = ("flask_sqlalchemy", "scope of the thread", "flask_sqlalchemy_lite", "scoped_session", "sessionmaker")


class Place:
    """An app with one kind of sessions, and the context in which it uses them."""

    def __init__(self, kind):
        self.app = Flask(__name__)
        self.needs_app = kind in {"flask_sqlalchemy", "flask_sqlalchemy_lite", "scope of the thread"}
        given = None
        if kind in {"flask_sqlalchemy", "scope of the thread"}:
            self.app.config["SQLALCHEMY_DATABASE_URI"] = "sqlite://"
            scope = {"scopefunc": lambda: "everywhere"} if kind == "scope of the thread" else {}
            SQLAlchemy(self.app, session_options=scope)
        elif kind == "flask_sqlalchemy_lite":
            self.app.config["SQLALCHEMY_ENGINES"] = {"default": "sqlite://"}
            SQLAlchemyLite(self.app)
        else:
            given = sessionmaker(sa.create_engine("sqlite://"))
            given = scoped_session(given) if kind == "scoped_session" else given
        self.sessions = sessions_of(self.app, given)

    @contextmanager
    def context(self):
        with self.app.app_context() if self.needs_app else nullcontext():
            yield
            self.sessions.remove()


@pytest.fixture(params=KINDS)
def place(request):
    place = Place(request.param)
    yield place
    with place.context():
        engine = place.sessions.engine()
    engine.dispose()


@pytest.fixture
def sessions(place):
    with place.context():
        yield place.sessions


def test_the_current_session_is_made_once(sessions):
    session = sessions.current()

    assert isinstance(session, Session)
    assert sessions.current() is session


def test_looking_for_an_existing_session_makes_none(sessions):
    assert sessions.existing() is None
    assert sessions.existing() is None

    made = sessions.current()

    assert sessions.existing() is made


def test_looking_without_an_app_context_finds_none(place):
    assert place.sessions.existing() is None


def test_removing_without_an_app_context_does_nothing(place):
    place.sessions.remove()


def test_setting_aside_without_an_app_context_does_nothing(place):
    with place.sessions.set_aside():
        assert place.sessions.existing() is None


def test_removing_closes_the_session_and_the_next_use_makes_a_new_one(sessions):
    session = sessions.current()
    session.execute(sa.text("SELECT 1"))

    sessions.remove()

    assert not session.in_transaction()
    assert sessions.existing() is None
    assert sessions.current() is not session


def test_a_session_set_aside_comes_back_untouched(sessions):
    session = sessions.current()
    session.execute(sa.text("SELECT 1"))
    transaction = session.get_transaction()

    with sessions.set_aside():
        assert sessions.existing() is None
        within = sessions.current()
        assert within is not session
        within.execute(sa.text("SELECT 1"))

    assert not within.in_transaction()
    assert sessions.existing() is session
    assert session.get_transaction() is transaction


def test_a_session_set_aside_comes_back_after_an_error(sessions):
    session = sessions.current()

    def fail():
        with sessions.set_aside():
            sessions.current()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert sessions.existing() is session


def test_a_session_set_aside_can_be_removed_for_within(sessions):
    session = sessions.current()

    with sessions.set_aside():
        sessions.current()
        sessions.remove()

    assert sessions.existing() is session


def test_where_there_was_no_session_there_is_none_behind_the_block(sessions):
    with sessions.set_aside():
        sessions.current()

    assert sessions.existing() is None


def test_setting_aside_can_be_nested(sessions):
    outer = sessions.current()

    with sessions.set_aside():
        middle = sessions.current()
        with sessions.set_aside():
            assert sessions.current() not in {outer, middle}
        assert sessions.existing() is middle

    assert sessions.existing() is outer


def test_a_new_app_context_within_has_a_session_of_its_own(place, sessions):
    session = sessions.current()

    with sessions.set_aside(), place.app.app_context():
        assert sessions.existing() is None
        assert sessions.current() is not session
        sessions.remove()

    assert sessions.existing() is session


def test_another_thread_has_a_session_of_its_own():
    place = Place("scoped_session")
    seen = []
    session = place.sessions.current()

    thread = Thread(target=lambda: seen.append(place.sessions.existing()))
    thread.start()
    thread.join(10)

    assert seen == [None]
    assert place.sessions.existing() is session
    place.sessions.remove()


def test_the_engine_is_the_default_one(sessions):
    engine = sessions.engine()

    assert engine is sessions.current().get_bind()
    assert list(sessions.engines()) == [engine]


def test_sessions_by_name_of_the_lite_extension_are_put_aside_and_removed_too():
    place = Place("flask_sqlalchemy_lite")
    db = place.app.extensions["sqlalchemy"]
    with place.app.app_context():
        other = db.get_session("other")
        other.execute(sa.text("SELECT 1"))
        with place.sessions.set_aside():
            assert db.get_session("other") is not other
        assert db.get_session("other") is other

        place.sessions.remove()

        assert not other.in_transaction()
        db.engine.dispose()


def test_one_session_that_fails_to_close_does_not_keep_the_others_open():
    place = Place("flask_sqlalchemy_lite")
    db = place.app.extensions["sqlalchemy"]
    with place.app.app_context():
        first, second, third = (db.get_session(name) for name in ("first", "second", "third"))
        for session in (first, second, third):
            session.begin()

        @sa.event.listens_for(second, "after_transaction_end")
        def fail(session, transaction):
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            place.sessions.remove()

        assert not first.in_transaction()
        assert not third.in_transaction()
        db.engine.dispose()


def test_a_factory_without_an_engine_has_no_engine(make_sessions):
    assert make_sessions(scoped_session(sessionmaker())).engine() is None


def test_a_factory_on_a_connection_has_its_engine(make_sessions):
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        assert make_sessions(sessionmaker(connection)).engine() is engine
    engine.dispose()


def test_a_plain_function_can_make_the_sessions(make_sessions):
    engine = sa.create_engine("sqlite://")
    sessions = make_sessions(scoped_session(lambda: Session(engine)))

    sessions.watch()

    assert list(sessions.engines()) == []
    assert sessions.engine() is engine
    sessions.remove()
    engine.dispose()


@pytest.fixture
def make_sessions():
    return lambda given: sessions_of(Flask(__name__), given)


def test_an_app_without_sessions_says_how_to_give_one_when_one_is_needed():
    sessions = sessions_of(Flask(__name__))

    assert isinstance(sessions, NoSessions)
    assert sessions.existing() is None
    assert sessions.engine() is None
    assert list(sessions.engines()) == []
    sessions.watch()
    sessions.remove()
    with sessions.set_aside(), pytest.raises(ConfigurationError, match=r"Jobs\(session=scoped_session"):
        sessions.current()


@pytest.mark.parametrize("given", ["db", async_sessionmaker(), async_scoped_session(async_sessionmaker(), id)])
def test_what_is_no_factory_of_sessions_is_refused(make_sessions, given):
    with pytest.raises(ConfigurationError, match=f"not a {type(given).__name__}"):
        make_sessions(given)


def test_an_unknown_extension_is_refused_rather_than_ignored():
    class Other:
        pass

    app = Flask(__name__)
    app.extensions["sqlalchemy"] = Other()

    with pytest.raises(ConfigurationError, match="is a Other, whose sessions"):
        sessions_of(app)


def test_a_lite_extension_that_hides_its_sessions_is_refused_at_first_use():
    class Moved(SQLAlchemyLite):
        @property
        def session(self):
            return Session()

    app = Flask(__name__)
    app.config["SQLALCHEMY_ENGINES"] = {"default": "sqlite://"}
    Moved(app)

    with app.app_context(), pytest.raises(ConfigurationError, match="another release"):
        sessions_of(app).current()


def test_a_call_may_name_a_session_or_a_scope():
    scope = scoped_session(sessionmaker())
    session = Session()

    assert named_session(session) is session
    assert named_session(scope) is scope()


@pytest.mark.parametrize("given", [None, "db", AsyncSession()])
def test_a_call_that_names_something_else_is_refused(given):
    with pytest.raises(InvalidArgument, match=type(given).__name__):
        named_session(given)
