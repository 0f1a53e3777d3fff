"""All that one app owns, built once in `Jobs.init_app`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import sqlalchemy as sa
from flask import Flask, current_app, has_app_context
from werkzeug.local import LocalProxy

from . import config, drivers, transactions
from .batches import Batch
from .config import ConnectionSettings
from .connections import Connections
from .dispatched import Options
from .dispatcher import Dispatcher
from .driver import Driver
from .drivers import DriverFactory, Surroundings
from .envelope import Reservation, Settled
from .errors import ConfigurationError
from .events import Events
from .executor import Executor
from .guards import AppGuards, Memory
from .inline import run_inline
from .job import Job
from .middleware import RateLimited
from .registry import Registry
from .serializer import ModelReferences, Serializer, Signer, Unsigned
from .sessions import NoSessions, Sessions, sessions_of, watch_from_first_context
from .store import Store
from .worker.alarm import Alarm
from .workflows import Workflows

EXTENSION = "flask_jobs"


class AppState:
    """What belongs to one app: its settings, connections, serializer, executor and dispatcher.

    The secret key, TESTING and the app's sessions are read when they are first needed, so that an app may be
    configured in any order.
    """

    def __init__(self, app: Flask, registry: Registry, session: Any, factories: Mapping[str, DriverFactory]) -> None:
        self.app = app
        self.registry = registry
        self.stop_looking_for_sessions: Callable[[], None] = lambda: None
        self._session = session
        self._sessions: Sessions = NoSessions()
        self._serializer: Serializer | None = None
        self._lacks_key = True
        self._factories = factories
        self._events: dict[str, Events] = {}
        self._executors: dict[str, Executor] = {}
        self._memory = Memory()
        # It is never entered, and so lets each job run to its end, and warns once in the life of the app.
        self._no_alarm = Alarm()
        self.config = config.read(app.config, lambda driver: drivers.factory(driver, factories).keys)
        self.connections = Connections(self.config, self._make_driver)
        self.dispatcher = Dispatcher(
            serializer=self.serializer_for,
            connections=self.connections,
            sessions=lambda: self.sessions,
            events=self.events,
            check=self.check,
        )
        self.workflows = Workflows(self.dispatcher)

    @property
    def sessions(self) -> Sessions:
        """The app's SQLAlchemy sessions, however it makes them; looked for until some are found."""
        if isinstance(self._sessions, NoSessions):
            self._sessions = sessions_of(self.app, self._session)
        return self._sessions

    @property
    def serializer(self) -> Serializer:
        """Turns jobs into envelopes and back. Made anew once, if the secret key is set after its first use."""
        if self._serializer is None or (self._lacks_key and self.app.secret_key):
            self._lacks_key = not self.app.secret_key
            self._serializer = Serializer(
                self.registry,
                signer=self._signer(),
                references=ModelReferences(self.registry, lambda: self.sessions.current()),
                max_payload=self.config.max_payload,
            )
        return self._serializer

    def serializer_for(self, driver: Driver) -> Serializer:
        """The serializer, unless jobs of this driver would have to be signed and there is no key."""
        if driver.durable and self.config.sign and not self.app.secret_key:
            raise ConfigurationError(
                "Stored jobs are signed, and the app has no SECRET_KEY. Set app.config['SECRET_KEY'], or "
                "JOBS_SIGN = False if everybody who can write to the store may run code."
            )
        return self.serializer

    def events(self, connection: str) -> Events:
        """Tells what happens to the jobs of a connection."""
        if connection not in self._events:
            self._events[connection] = Events(self.app, connection)
        return self._events[connection]

    def executor(self, connection: str) -> Executor:
        """Runs attempts of a connection's stored jobs in this app; refuses unsigned ones as `serializer_for` does.

        Whoever has stored jobs run has made the app, so that a context of each job need not be looked at for sessions.
        """
        self.serializer_for(self.connections.driver(connection))
        self.stop_looking_for_sessions()
        return self.inline_executor(connection)

    def inline_executor(self, connection: str) -> Executor:
        """The same for jobs that never leave this process, so that no store is asked for."""
        if connection not in self._executors:
            self._executors[connection] = Executor(
                decode=lambda envelope: self.serializer.decode(envelope),
                context=self.job_context,
                cleanup=lambda: self.sessions.remove(),
                events=self.events(connection),
                guards=self._guards(connection),
                find_batch=partial(self.find_batch, connection),
            )
        return self._executors[connection]

    def isolated_executor(self, connection: str, store: Store) -> Executor:
        """The same with one store for all locks and limits, whatever the app and its jobs name."""
        return Executor(
            decode=lambda envelope: self.serializer.decode(envelope),
            context=self.job_context,
            cleanup=lambda: self.sessions.remove(),
            events=self.events(connection),
            guards=self._guards(connection, only=store),
            find_batch=partial(self.find_batch, connection),
        )

    def find_batch(self, connection: str, batch_id: str | None) -> Batch | None:
        """The batch with this id, if it is stored; None for a job that belongs to none."""
        return None if batch_id is None else self.workflows.find_batch(batch_id, Options(connection=connection))

    def job_context(self) -> AbstractContextManager[object]:
        """An app context for one attempt; external URLs follow JOBS_BASE_URL if it is set."""
        context = self.app.app_context()
        if self.config.base_url is not None:
            parts = urlsplit(self.config.base_url)
            context.url_adapter = self.app.url_map.bind(
                parts.netloc, script_name=parts.path or "/", url_scheme=parts.scheme
            )
        return context

    @contextmanager
    def fresh(self) -> Iterator[None]:
        """An app context with a session of its own, as an attempt has; the caller's session is put aside for it."""
        with self.sessions.set_aside(), self.job_context():
            try:
                yield
            finally:
                self.sessions.remove()

    def check(self, job: Job) -> None:
        """Raise `ConfigurationError` if the job's middleware names a limiter that there is not."""
        if type(job).middleware is Job.middleware:
            return
        try:
            layers = list(job.middleware())
        except Exception:  # it may need what only a worker has, and is asked again there
            return
        for layer in layers:
            if isinstance(layer, RateLimited):
                self.registry.require_limiter(layer.limiter)

    def _guards(self, connection: str, only: Store | None = None) -> AppGuards:
        return AppGuards(
            connection, connections=self.connections, registry=self.registry, memory=self._memory, only=only
        )

    def _signer(self) -> Signer | Unsigned:
        key = self.app.secret_key
        if not key or not self.config.sign:
            return Unsigned()
        return Signer(key, self.app.config.get("SECRET_KEY_FALLBACKS") or ())

    def _make_driver(self, settings: ConnectionSettings) -> Driver:
        surroundings = Surroundings(
            app_engine=self._app_engine,
            instance_path=Path(self.app.instance_path),
            run=partial(self._run_inline, settings.name),
            testing=self.app.testing,
        )
        return drivers.factory(settings.driver, self._factories)(settings, surroundings)

    def begin_before_savepoints(self) -> None:
        """Let savepoints lie within transactions on each engine of the app that may have to take in jobs."""
        for settings in self.config.connections.values():
            if settings.driver != "database" or settings.options.get("url") is not None:
                continue
            # Asked for only where it is known before a session is used.
            of_app = self.sessions.engine() if self.sessions.engines() else None
            engine: object = settings.options.get("engine") or of_app
            if isinstance(engine, sa.Engine):
                transactions.begin_before_savepoint(engine)

    def _app_engine(self) -> sa.Engine | None:
        if has_app_context() and current_app.extensions is self.app.extensions:
            return self.sessions.engine()
        # Leaving a context runs the app's teardown functions, and one of them may remove the session of this thread.
        with self.sessions.set_aside(), self.app.app_context():
            return self.sessions.engine()

    def _run_inline(
        self, connection: str, driver: Driver, reservation: Reservation
    ) -> tuple[Settled, Exception | None]:
        with self.sessions.set_aside():
            executor, events = self.inline_executor(connection), self.events(connection)
            return run_inline(reservation, driver=driver, executor=executor, events=events, elsewhere=self._no_alarm)


def attach(app: Flask, *, registry: Registry, session: Any, factories: Mapping[str, DriverFactory]) -> None:
    """Give the app its state, and watch its sessions as soon as they can be found."""
    if EXTENSION in app.extensions:
        raise ConfigurationError(f"The app {app.name!r} has its Jobs already: call init_app once, on one Jobs object.")
    state = AppState(app, registry, session, factories)
    app.extensions[EXTENSION] = state
    state.stop_looking_for_sessions = watch_from_first_context(
        app, lambda: state.sessions, also=state.begin_before_savepoints
    )


def current_state() -> AppState:
    """The state of the current app, or an error that says what is missing."""
    app = _current_app()
    state = app.extensions.get(EXTENSION)
    if state is None:
        raise ConfigurationError(f"The app {app.name!r} has no Jobs: call jobs.init_app(app) in its factory.")
    return state  # type: ignore[no-any-return]  # app.extensions is a plain dict


def state_of(registry: Registry) -> AppState:
    """The state of the current app, if it belongs to the Jobs object with this registry."""
    state = current_state()
    if state.registry is not registry:
        raise ConfigurationError(f"The app {state.app.name!r} was initialised with another Jobs object than this one.")
    return state


def state_if_any(app: Flask | None, registry: Registry) -> AppState | None:
    """The state of the app, None meaning the current one, if it has one of the Jobs object with this registry."""
    state: AppState | None = (app or _current_app()).extensions.get(EXTENSION)
    return state if state is not None and state.registry is registry else None


def _current_app() -> Flask:
    if not has_app_context():
        raise ConfigurationError(
            "There is no app here to dispatch for. Inside a request, a job or a flask command there is one; "
            "elsewhere write: with app.app_context(): ..."
        )
    # Each look through the proxy would find it anew.
    return cast("LocalProxy[Flask]", current_app)._get_current_object()
