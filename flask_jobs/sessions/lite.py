"""Sessions of Flask-SQLAlchemy-Lite, which is known by what it offers and never imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol

import sqlalchemy as sa
from flask import g, has_app_context
from sqlalchemy.orm import Session, sessionmaker

from ..errors import ConfigurationError
from ..transactions import SessionSource
from .port import HOW_TO_GIVE_ONE, Sessions

# Where Flask-SQLAlchemy-Lite keeps the sessions of an app context, by name.
_LITE_SESSIONS = "_sqlalchemy_sessions"


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
