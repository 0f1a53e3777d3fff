"""What middleware finds of an app: its limiters, and the stores that its connections and settings name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from .config import MEMORY
from .connections import Connections
from .control import Guard
from .driver import Driver, KeepsLocks
from .errors import ConfigurationError
from .job import Job
from .keeping import Keeper
from .limits import Limit
from .registry import Registry
from .store import Store
from .stores import MemoryStore

logger = logging.getLogger(__name__)

_SAID_ONCE = (
    "Locks and limits are kept in this process's memory, as JOBS_STORE or a middleware asks for: they guard this "
    "process alone, and no other worker."
)


class Memory:
    """The memory of this process as a store, and the keeper of locks; one for all connections of an app."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.keeper = Keeper()
        self._is_said = False

    def asked_for(self) -> MemoryStore:
        """The store, for somebody who named it: once in the log it is said what it guards."""
        if not self._is_said:
            self._is_said = True
            logger.warning(_SAID_ONCE)
        return self.store


class AppGuards:
    """The limiters and stores for the jobs of one connection. `only` stands for every store, whatever is named."""

    def __init__(
        self,
        connection: str,
        *,
        connections: Connections,
        registry: Registry,
        memory: Memory,
        only: Store | None = None,
    ) -> None:
        self._connection = connection
        self._connections = connections
        self._registry = registry
        self._memory = memory
        self._only = only

    @property
    def releases_spend(self) -> bool:
        """Whether a release before the body has started costs an attempt, where nobody says."""
        return self._connections.config.releases_spend

    def guard(self, name: str | None) -> Guard:
        """The store of that name (a connection, or "memory"), or the one that the app has chosen."""
        lasting = self._connections.settings(self._connection).retry_after
        wanted = self._connections.config.store if name is None else name
        if self._only is not None:
            return Guard(self._only, lasting, is_beside=True)
        if wanted == MEMORY:
            return Guard(self._memory.asked_for(), lasting, is_beside=False)
        where = self._connection if wanted is None else wanted
        driver = self._connections.driver(where)
        if isinstance(driver, KeepsLocks):
            return Guard(driver.store, lasting, is_beside=where == self._connection)
        if driver.runs_inline and where == self._connection:
            return Guard(self._memory.store, lasting, is_beside=False)
        raise _keeps_none(where, driver)

    def limits(self, limiter: str, job: object) -> Sequence[Limit]:
        """The limits that the limiter gives the job."""
        return self._registry.limits_of(limiter, job)

    def name_of(self, job: object) -> str:
        """The job's registered name, whatever name it was stored under."""
        assert isinstance(job, Job)
        return self._registry.name_of(job)

    def keep(self, what: str, extend: Callable[[], bool], *, seconds: float) -> Callable[[], None]:
        """Call `extend` before `seconds` are over, time after time, until what this returns is called."""
        return self._memory.keeper.keep(what, extend, seconds=seconds)


def _keeps_none(connection: str, driver: Driver) -> ConfigurationError:
    return ConfigurationError(
        f"The connection {connection!r} keeps no locks and limits ({type(driver).__name__}): set JOBS_STORE, or store= "
        f"of the middleware, to a connection on a database or on Redis, or to {MEMORY!r} for a single process."
    )
