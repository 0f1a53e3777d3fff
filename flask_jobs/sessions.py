"""The app's SQLAlchemy sessions: the one to load from, the one to wait for, and how to put it aside.

Flask-SQLAlchemy and Flask-SQLAlchemy-Lite are known by what they offer, and neither is imported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

import sqlalchemy as sa
from flask import Flask, appcontext_pushed, g, has_app_context
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from . import transactions
from .errors import ConfigurationError, InvalidArgument
from .transactions import SessionSource

SessionOption = scoped_session[Session] | sessionmaker[Session]
"""What an app without one of the extensions gives as ``Jobs(session=...)``."""

HOW_TO_GIVE_ONE = (
    "Initialise Flask-SQLAlchemy or Flask-SQLAlchemy-Lite on the app, or give a session: "
    "Jobs(session=scoped_session(...)). A dispatch can name one, too: dispatch(job, session=session)."
)

# Where Flask-SQLAlchemy-Lite keeps the sessions of an app context, by name.
_LITE_SESSIONS = "_sqlalchemy_sessions"


class Sessions(ABC):
    """The sessions of one app, as the current context sees them."""

    @abstractmethod
    def current(self) -> Session:
        """The context's session, made if there is none yet."""

    @abstractmethod
    def existing(self) -> Session | None:
        """The context's session if it has one already. Never makes one, and needs no app context."""

    def to_wait_for(self) -> Session:
        """The session whose next commit is waited for where the context has none yet."""
        return self.current()

    @abstractmethod
    def remove(self) -> None:
        """Close the context's sessions and forget them; the next use makes new ones."""

    @abstractmethod
    def set_aside(self) -> AbstractContextManager[None]:
        """Within the block there is no session yet; behind it the present one is back, untouched."""

    @abstractmethod
    def engine(self) -> sa.Engine | None:
        """The engine that sessions use unless a model says otherwise, or None where that is not known."""

    @abstractmethod
    def engines(self) -> Sequence[sa.Engine]:
        """All engines that are known before a session is used."""

    @abstractmethod
    def factories(self) -> Sequence[SessionSource]:
        """What makes the sessions."""

    def watch(self) -> None:
        """Follow the transactions of these sessions, from their first. In an app context; safe to repeat."""
        for factory in self.factories():
            transactions.watch(factory)
        for engine in self.engines():
            transactions.watch_engine(engine)


class NoSessions(Sessions):
    """The app has no sessions; only a job that needs one hears of it."""

    def current(self) -> Session:
        """Raises, and says how to give one."""
        raise ConfigurationError(f"This app has no SQLAlchemy session that the library knows. {HOW_TO_GIVE_ONE}")

    def existing(self) -> None:
        """None."""

    def remove(self) -> None:
        """Nothing to remove."""

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Nothing to set aside."""
        yield

    def engine(self) -> None:
        """None."""

    def engines(self) -> Sequence[sa.Engine]:
        """None at all."""
        return ()

    def factories(self) -> Sequence[SessionSource]:
        """None at all."""
        return ()


class ScopedSessions(Sessions):
    """Sessions of a `scoped_session`, whatever its scope."""

    def __init__(self, scoped: scoped_session[Session]) -> None:
        self._scoped = scoped

    def current(self) -> Session:
        """The session of the scope, made if there is none yet."""
        return self._scoped()

    def existing(self) -> Session | None:
        """The session of the scope if it has one already."""
        return self._scoped() if self._is_in_scope() and self._scoped.registry.has() else None

    def remove(self) -> None:
        """Close the session of the scope and forget it."""
        if self._is_in_scope():
            self._scoped.remove()

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Empty the scope for the block. What is made within is closed behind it."""
        kept = self.existing()
        if kept is not None:
            self._scoped.registry.clear()
        try:
            yield
        finally:
            self._put_back(kept)

    def engine(self) -> sa.Engine | None:
        """The engine that the factory binds sessions to."""
        factory = self._scoped.session_factory
        bind = factory.kw.get("bind") if isinstance(factory, sessionmaker) else self.current().bind
        return bind.engine if bind is not None else None

    def engines(self) -> Sequence[sa.Engine]:
        """The engine of a `sessionmaker`; another factory is not called for it."""
        factory = self._scoped.session_factory
        engine = self.engine() if isinstance(factory, sessionmaker) else None
        return () if engine is None else (engine,)

    def factories(self) -> Sequence[SessionSource]:
        """The `scoped_session`."""
        return (self._scoped,)

    def _is_in_scope(self) -> bool:
        """Whether the scope can be asked for here."""
        return True

    def _put_back(self, kept: Session | None) -> None:
        try:
            self.remove()
        finally:
            if kept is not None:
                self._scoped.registry.set(kept)


class FactorySessions(ScopedSessions):
    """What a `sessionmaker` makes. The library loads rows in a scope of its own, which the app does not know."""

    def __init__(self, factory: sessionmaker[Session]) -> None:
        super().__init__(scoped_session(factory))

    def to_wait_for(self) -> Session:
        """Raises: which of its sessions the app is going to commit, only the app knows."""
        raise InvalidArgument(
            "Which session is this job to wait for? Jobs knows only your sessionmaker, so name it: "
            "dispatch(job, session=session)."
        )


class _FlaskSQLAlchemy(Protocol):
    @property
    def session(self) -> scoped_session[Session]: ...

    @property
    def engines(self) -> Mapping[str | None, sa.Engine]: ...


class FlaskSQLAlchemySessions(ScopedSessions):
    """Sessions of Flask-SQLAlchemy: one for each app context, unless the app chose another scope."""

    def __init__(self, extension: _FlaskSQLAlchemy) -> None:
        super().__init__(extension.session)
        self._extension = extension

    def engine(self) -> sa.Engine | None:
        """The engine of the current app that has no bind key. In an app context."""
        return self._extension.engines.get(None)

    def engines(self) -> Sequence[sa.Engine]:
        """The current app's engines of all bind keys. In an app context."""
        return tuple(self._extension.engines.values())

    def _is_in_scope(self) -> bool:
        return has_app_context()


class _Lite(Protocol):
    @property
    def session(self) -> Session: ...

    @property
    def sessionmaker(self) -> sessionmaker[Session]: ...

    @property
    def engines(self) -> Mapping[str, sa.Engine]: ...


class LiteSessions(Sessions):
    """Sessions of Flask-SQLAlchemy-Lite: the default one of each app context, and those with names beside it."""

    def __init__(self, extension: _Lite) -> None:
        self._extension = extension

    def current(self) -> Session:
        """The default session of the app context, made if there is none yet."""
        session = self._extension.session
        if self.existing() is not session:
            raise ConfigurationError(
                "This release of Flask-SQLAlchemy-Lite keeps its sessions where the library does not find them. "
                f"Use another release, or give a session: {HOW_TO_GIVE_ONE}"
            )
        return session

    def existing(self) -> Session | None:
        """The default session of the app context if it has one already."""
        sessions: Mapping[str, Session] = g.get(_LITE_SESSIONS, {}) if has_app_context() else {}
        return sessions.get("default")

    def remove(self) -> None:
        """Close the sessions of the app context, those with names too, and forget them."""
        sessions: Mapping[str, Session] = g.pop(_LITE_SESSIONS, {}) if has_app_context() else {}
        with ExitStack() as closing:
            for session in sessions.values():
                closing.callback(session.close)

    @contextmanager
    def set_aside(self) -> Iterator[None]:
        """Take all sessions of the app context away for the block. What is made within is closed behind it."""
        kept = g.pop(_LITE_SESSIONS, None) if has_app_context() else None
        try:
            yield
        finally:
            try:
                self.remove()
            finally:
                if kept is not None:
                    setattr(g, _LITE_SESSIONS, kept)

    def engine(self) -> sa.Engine | None:
        """The current app's engine of the name "default". In an app context."""
        return self._extension.engines.get("default")

    def engines(self) -> Sequence[sa.Engine]:
        """The current app's engines of all names. In an app context."""
        return tuple(self._extension.engines.values())

    def factories(self) -> Sequence[SessionSource]:
        """The current app's session factory. In an app context."""
        return (self._extension.sessionmaker,)


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
) -> object:
    """Watch the sessions that `find` returns as soon as a context of the app exists, so before any of them works.

    Extensions may be initialised in any order until then, or even in that context: where nothing is found, the next
    context is looked at again. `also` is done in the same moment. The caller keeps what is returned: the signal does
    not.
    """

    def watch(sender: Flask, **_: object) -> None:
        sessions = find()
        if isinstance(sessions, NoSessions):
            return
        sessions.watch()
        also()
        appcontext_pushed.disconnect(watch, app)

    appcontext_pushed.connect(watch, app)
    return watch


def _given(session: SessionOption) -> Sessions:
    if isinstance(session, scoped_session):
        return ScopedSessions(session)
    if isinstance(session, sessionmaker):
        return FactorySessions(session)
    raise ConfigurationError(
        f"Jobs(session=...) takes a scoped_session or a sessionmaker, not a {type(session).__name__}."
    )
