"""`Jobs`, the face of the library.

What stands behind it is imported when the first app is connected, and not with ``import flask_jobs``: SQLAlchemy
alone takes longer than Flask does. That is why there are imports in functions here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload
from uuid import UUID

from blinker import ANY, Signal
from flask import Flask

from .dispatched import Dispatched, Options
from .driver import Driver, RunsChains
from .drivers import DriverFactory, checked
from .errors import PushFailed
from .job import Job, Task
from .limiters import LimiterFunction
from .listeners import Listeners
from .pushes import Role
from .registry import Registry
from .stored import StoredChain

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, scoped_session, sessionmaker

    from .batches import Batch
    from .state import AppState
    from .testing.fake import FakeQueue
    from .testing.run import Result

P = ParamSpec("P")
R = TypeVar("R")
J = TypeVar("J", bound=Job)
M = TypeVar("M")
V = TypeVar("V")
L = TypeVar("L", bound=LimiterFunction)
U = TypeVar("U", bound=Callable[[dict[str, Any]], dict[str, Any]])


class Jobs:
    """Background jobs for Flask applications.

    Made once, at module level; `init_app` connects it to an app, or to many. `session` gives the app's
    `scoped_session` or `sessionmaker` where neither Flask-SQLAlchemy nor Flask-SQLAlchemy-Lite is used.
    """

    def __init__(
        self, app: Flask | None = None, *, session: scoped_session[Any] | sessionmaker[Any] | None = None
    ) -> None:
        self.registry = Registry()
        self._session = session
        self._factories: dict[str, DriverFactory] = {}
        self._listeners = Listeners(self.registry, self._state_if_any)
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Connect an app: read its `JOBS_…` settings, and raise `ConfigurationError` where one cannot work."""
        from .state import attach

        attach(app, registry=self.registry, session=self._session, factories=self._factories)

    def register(self, name: str, *, aliases: Sequence[str] = ()) -> Callable[[type[J]], type[J]]:
        """Give a job class the stable name under which its jobs are stored; `aliases` are its earlier names."""
        return self.registry.register(name, aliases=aliases)

    def task(self, name: str, *, aliases: Sequence[str] = (), **options: Any) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Make a function a job under this name. `options` are those of a `Job`, such as ``max_attempts=1``."""
        return self.registry.task(name, aliases=aliases, **options)

    def model(self, name: str, *, delete_when_missing: bool = False) -> Callable[[type[M]], type[M]]:
        """Give a model class the stable name under which jobs refer to its rows.

        With `delete_when_missing` a job whose row is gone ends quietly instead of failing.
        """
        return self.registry.model(name, delete_when_missing=delete_when_missing)

    def codec(self, cls: type[V], name: str, encode: Callable[[V], object], decode: Callable[[Any], V]) -> None:
        """Teach jobs to carry values of a class: `encode` gives something storable, `decode` takes it back."""
        self.registry.codec(cls, name, encode, decode)

    def upcast(self, job: str, version: int) -> Callable[[U], U]:
        """Register a function from the fields of a job's stored `version` to those of the next one."""
        return self.registry.upcast(job, version)

    @overload
    def limiter(self, name: str) -> Callable[[L], L]: ...

    @overload
    def limiter(self, name: str, function: L) -> L: ...

    def limiter(self, name: str, function: L | None = None) -> L | Callable[[L], L]:
        """Register how often jobs may start that say ``RateLimited(name)``: a function from the job to its limits.

        It gives a `Limit`, several, or None for no limit. Also a decorator: ``@jobs.limiter("emails")``.
        """
        if function is None:
            return lambda found: self.registry.add_limiter(name, found)
        return self.registry.add_limiter(name, function)

    def listen(
        self, signal: Signal, name: str, *, sender: object = ANY, aliases: Sequence[str] = (), **options: Any
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Make a function a receiver of a signal that runs as a job under this name.

        It takes the sender first, as every receiver does, and of the signal's arguments those that it names; they
        are stored as the fields of any job. A sender that cannot be stored, such as the app, is None there. `sender`
        listens to that one alone; `aliases` and `options` are those of `task`.
        """
        return self._listeners.listen(signal, name, sender=sender, aliases=aliases, options=options)

    def extend(self, driver: str, factory: DriverFactory) -> None:
        """Make a driver of your own known under a name, before `init_app`.

        Raises `ConfigurationError` if the factory is none: see `DriverFactory`.
        """
        self._factories[driver] = checked(driver, factory)

    def dispatch(
        self,
        job: Job,
        *,
        queue: str | None = None,
        connection: str | None = None,
        delay: float | timedelta | datetime | None = None,
        after_commit: bool | None = None,
        front: bool = False,
        id: str | UUID | None = None,  # noqa: A002  # the word that users look for
        session: Session | scoped_session[Any] | None = None,
    ) -> Dispatched:
        """Hand a job over to be done by a worker.

        If the app's session has an open transaction that has written, the job waits for its commit and goes away
        with its rollback; `after_commit` says otherwise. `delay` is seconds, a timedelta or an aware datetime.
        `front` puts it at the head of its queue. `id` (a UUID) makes a repeated call store the job once.
        `session` names the transaction where the app's session is not known to `Jobs`.

        Raises `NotRegistered`, `UnserializableJob` or `InvalidArgument` before anything is sent, `ConnectionLost`
        or `StoreRefused` if it could not be stored.
        """
        options = Options(queue, connection, delay, after_commit, front, id, session)
        return self.state.dispatcher.dispatch(job, options)

    def dispatch_many(
        self,
        jobs: Iterable[Job],
        *,
        queue: str | None = None,
        connection: str | None = None,
        delay: float | timedelta | datetime | None = None,
        after_commit: bool | None = None,
        front: bool = False,
        session: Session | scoped_session[Any] | None = None,
    ) -> list[Dispatched]:
        """Hand many jobs over together, in order and in few round trips; the options hold for each of them."""
        options = Options(queue, connection, delay, after_commit, front, None, session)
        return self.state.dispatcher.dispatch_many(jobs, options)

    def chain(
        self,
        jobs: Sequence[Job],
        *,
        catch: Job | None = None,
        queue: str | None = None,
        connection: str | None = None,
        delay: float | timedelta | datetime | None = None,
        after_commit: bool | None = None,
        session: Session | scoped_session[Any] | None = None,
    ) -> Dispatched:
        """Hand jobs over that run one after the other: each is stored in the step that ends the one before it.

        A link that fails for good stops the chain, and `catch` is run once; retrying that link brings the rest along.
        A link goes to its own queue, else to `queue`; `delay` holds for the first one. The other options are those of
        `dispatch`, and so are the errors. `find_chain(answer.chain)` shows how far it is.
        """
        options = Options(queue, connection, delay, after_commit, session=session)
        return self.state.workflows.chain(jobs, catch, options)

    def batch(
        self,
        jobs: Iterable[Job],
        *,
        then: Job | None = None,
        catch: Job | None = None,
        finally_: Job | None = None,
        allow_failures: bool = False,
        name: str = "",
        queue: str | None = None,
        connection: str | None = None,
        delay: float | timedelta | datetime | None = None,
        after_commit: bool | None = None,
        session: Session | scoped_session[Any] | None = None,
    ) -> Batch:
        """Hand jobs over that run in any order and are counted together.

        `then` runs when all are done, `catch` at the first failure, `finally_` when none is left, each once. Without
        `allow_failures` the first failure cancels the batch: what has not started ends without running. The other
        options are those of `dispatch`, and so are the errors.
        """
        state = self.state
        options = Options(queue, connection, delay, after_commit, session=session)
        callbacks = {Role.THEN: then, Role.CATCH: catch, Role.FINALLY: finally_}
        return state.workflows.batch(jobs, callbacks, options, name=name, allow_failures=allow_failures)

    def find_batch(self, batch_id: str, *, connection: str | None = None) -> Batch | None:
        """The batch with this id, or None if there is none or it was pruned."""
        return self.state.workflows.find_batch(batch_id, Options(connection=connection))

    def find_chain(self, chain_id: str, *, connection: str | None = None) -> StoredChain | None:
        """The chain with this id, or None if it has ended: where it stands, and what is still to come."""
        driver = self.driver(connection)
        return driver.chain(chain_id) if isinstance(driver, RunsChains) else None

    def push_again(self, error: PushFailed, *, connection: str | None = None) -> list[Dispatched]:
        """Push what could not be stored after a commit. Safe to repeat: each job is stored once by its id."""
        return self.state.dispatcher.push_again(error.packages, Options(connection=connection))

    def after_commit(self) -> AbstractContextManager[None]:
        """Within the block every dispatch waits for the next commit of the app's session."""
        from . import transactions

        return transactions.deferring(self.state.dispatcher)

    def fake(self) -> AbstractContextManager[FakeQueue]:
        """Within the block jobs are recorded instead of stored, on every connection of the current app."""
        from .testing.fake import FakeQueue

        return FakeQueue.installed(self.state)

    def run(self, job: Job, *, attempt: int = 1) -> Result:
        """Run one job as a worker would, once, and say what came of it. For tests.

        `attempt` is the number of this body start, so that the last one can be tried out as well as the first.
        """
        from .testing.run import run_once

        return run_once(self.state, job, attempt_number=attempt)

    def driver(self, connection: str | None = None) -> Driver:
        """The driver behind a connection of the current app; None means the default connection."""
        return self.state.connections.driver(connection)

    @property
    def state(self) -> AppState:
        """All that the current app owns of this extension."""
        return _state_of()(self.registry)

    def _state_if_any(self, app: Flask | None) -> AppState | None:
        from .state import state_if_any

        return state_if_any(app, self.registry)


@cache
def _state_of() -> Callable[[Registry], AppState]:
    """Imported once: each dispatch asks for it, and would notice."""
    from .state import state_of

    return state_of
