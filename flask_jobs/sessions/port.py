"""What the library asks of an app's SQLAlchemy sessions: the one to load from, to wait for, and to put aside."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import sqlalchemy as sa
from sqlalchemy.orm import Session

from .. import transactions
from ..errors import ConfigurationError
from ..transactions import SessionSource

HOW_TO_GIVE_ONE = (
    "Initialise Flask-SQLAlchemy or Flask-SQLAlchemy-Lite on the app, or give a session: "
    "Jobs(session=scoped_session(...)). A dispatch can name one, too: dispatch(job, session=session)."
)


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
