"""Finding an app's sessions, and the moment from which they are watched."""

from __future__ import annotations

from collections.abc import Callable

from flask import Flask, appcontext_pushed
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from ..errors import ConfigurationError, InvalidArgument
from .lite import LiteSessions
from .port import NoSessions, Sessions
from .scoped import FactorySessions, FlaskSQLAlchemySessions, ScopedSessions

SessionOption = scoped_session[Session] | sessionmaker[Session]
"""What an app without one of the extensions gives as ``Jobs(session=...)``."""


def sessions_of(app: Flask, given: SessionOption | None = None) -> Sessions:
    """The app's sessions: those given, or those of the extension that is initialised on the app by now."""
    if given is not None:
        return _given(given)
    extension = app.extensions.get("sqlalchemy")
    if extension is None:
        return NoSessions()
    if isinstance(vars(extension).get("session"), scoped_session):
        return FlaskSQLAlchemySessions(extension)
    if hasattr(type(extension), "get_session") and hasattr(type(extension), "sessionmaker"):
        return LiteSessions(extension)
    raise ConfigurationError(
        f"app.extensions['sqlalchemy'] is a {type(extension).__name__}, whose sessions the library cannot find. "
        "Give a session: Jobs(session=scoped_session(...))."
    )


def named_session(session: object) -> Session:
    """The session that a call names; a `scoped_session` stands for the one of its scope."""
    if isinstance(session, scoped_session):
        session = session()
    if isinstance(session, Session):
        return session
    raise InvalidArgument(f"session takes a SQLAlchemy Session or scoped_session, not a {type(session).__name__}.")


def watch_from_first_context(
    app: Flask, find: Callable[[], Sessions], *, also: Callable[[], None] = lambda: None
) -> Callable[[], None]:
    """Watch the sessions that `find` returns as soon as a context of the app exists, so before any of them works.

    Extensions may be initialised in any order until then, or even in that context: where nothing is found, the next
    context is looked at again. `also` is done in the same moment. The caller keeps what is returned, for the signal
    does not, and calls it when nothing is to be looked for any more.
    """

    def watch(sender: Flask, **_: object) -> None:
        sessions = find()
        if isinstance(sessions, NoSessions):
            return
        sessions.watch()
        also()
        stop()

    def stop() -> None:
        # Without the sender, or the signal would go on to work out whom to tell.
        appcontext_pushed.disconnect(watch)

    appcontext_pushed.connect(watch, app)
    return stop


def _given(session: SessionOption) -> Sessions:
    if isinstance(session, scoped_session):
        return ScopedSessions(session)
    if isinstance(session, sessionmaker):
        return FactorySessions(session)
    raise ConfigurationError(
        f"Jobs(session=...) takes a scoped_session or a sessionmaker, not a {type(session).__name__}."
    )
