"""What a command works on: the app's state, one of its connections, and what that connection's driver can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import click

from ..config import ConnectionSettings
from ..driver import Clearable, Driver, Inspectable, KeepsLocks, Pausable, RunsBatches, StoresFailedJobs
from ..errors import CapabilityMissing, InvalidArgument
from ..explain import Pause
from ..state import AppState, current_state
from ..store import Store

connection_option = click.option(
    "--connection", metavar="NAME", help="The connection to work on, JOBS_DEFAULT if not given."
)


@dataclass(frozen=True, slots=True)
class Target:
    """The connection that a command was pointed at. What its driver cannot do raises `CapabilityMissing`."""

    state: AppState
    settings: ConnectionSettings
    driver: Driver

    @classmethod
    def of(cls, connection: str | None) -> Target:
        """The named connection of the current app, or its default one; an unknown name is a usage error."""
        state = current_state()
        try:
            settings = state.connections.settings(connection)
        except InvalidArgument as error:
            raise click.BadParameter(str(error), param_hint="--connection") from None
        return cls(state, settings, state.connections.driver(settings.name))

    @property
    def name(self) -> str:
        """The name of the connection."""
        return self.settings.name

    def inspectable(self) -> Inspectable:
        """The driver, to look at jobs."""
        if isinstance(self.driver, Inspectable):
            return self.driver
        raise self._cannot("show jobs")

    def failed_store(self) -> StoresFailedJobs:
        """The driver, to look after failed jobs."""
        if isinstance(self.driver, StoresFailedJobs):
            return self.driver
        raise self._cannot("keep failed jobs")

    def batches(self) -> RunsBatches:
        """The driver, to look after batches."""
        if isinstance(self.driver, RunsBatches):
            return self.driver
        raise self._cannot("run batches")

    def clearable(self) -> Clearable:
        """The driver, to empty queues."""
        if isinstance(self.driver, Clearable):
            return self.driver
        raise self._cannot("clear queues")

    def pausable(self) -> Pausable:
        """The driver, to pause queues."""
        if isinstance(self.driver, Pausable):
            return self.driver
        raise self._cannot("pause queues")

    def store(self) -> Store:
        """The store beside the jobs, to tell workers something."""
        if isinstance(self.driver, KeepsLocks):
            return self.driver.store
        raise self._cannot("tell workers to restart, for it keeps no store beside its jobs")

    def paused(self) -> Mapping[str, float | None]:
        """The paused queues with the end of their pause; none where the driver cannot pause."""
        return self.driver.paused() if isinstance(self.driver, Pausable) else {}

    def pause_of(self, queue: str) -> Pause | None:
        """The pause of this queue, if it is paused."""
        paused = self.paused()
        return Pause(paused[queue]) if queue in paused else None

    def _cannot(self, what: str) -> CapabilityMissing:
        return CapabilityMissing(
            f"The connection {self.name!r} (driver {self.settings.driver!r}) cannot {what}. "
            "Name another one with --connection."
        )
