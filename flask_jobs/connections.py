"""The configured connections of one app: names to drivers, each made on first use."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .config import Config, ConnectionSettings
from .driver import Driver


class Connections:
    """Gives the driver of a connection by name.

    A process that was forked gets drivers of its own, for a socket or file handle must not serve two processes.
    """

    def __init__(self, config: Config, make: Callable[[ConnectionSettings], Driver]) -> None:
        self.config = config
        self._make = make
        self._drivers: dict[str, Driver] = {}
        self._diversions: list[Callable[[ConnectionSettings], Driver]] = []
        self._lock = threading.RLock()
        self._process = os.getpid()

    def settings(self, name: str | None = None) -> ConnectionSettings:
        """The settings of the named connection, or of the default one."""
        return self.config.connection(name)

    def driver(self, name: str | None = None) -> Driver:
        """The driver of the named connection, or of the default one."""
        settings = self.settings(name)
        if self._diversions:
            return self._diversions[-1](settings)
        found = self._drivers.get(settings.name)
        if found is None or self._process != os.getpid():
            found = self._open(settings)
        return found

    @contextmanager
    def diverted(self, to: Callable[[ConnectionSettings], Driver]) -> Iterator[None]:
        """Within the block every connection leads to the driver that `to` gives for it. Blocks nest."""
        self._diversions.append(to)
        try:
            yield
        finally:
            self._diversions.remove(to)

    def close(self) -> None:
        """Close all drivers; they open again when they are used again."""
        with self._lock:
            for driver in self._drivers.values():
                driver.close()
            self._drivers.clear()

    def _open(self, settings: ConnectionSettings) -> Driver:
        with self._lock:
            if self._process != os.getpid():
                self._drivers = {}  # the parent's, and its to close
                self._process = os.getpid()
            if settings.name not in self._drivers:
                self._drivers[settings.name] = self._make(settings)
            return self._drivers[settings.name]
