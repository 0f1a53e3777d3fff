"""Sessions that live in a scope: those of a `scoped_session`, of a `sessionmaker`, and of Flask-SQLAlchemy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import sqlalchemy as sa
from flask import has_app_context
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from ..errors import InvalidArgument
from ..transactions import SessionSource
from .port import Sessions


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
