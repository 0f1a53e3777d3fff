"""The drivers that come with the library, and how others are found."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..config import ConnectionSettings
from ..driver import Driver
from ..envelope import Reservation, Settled
from ..errors import ConfigurationError

if TYPE_CHECKING:
    import sqlalchemy as sa

ENTRY_POINTS = "flask_jobs.drivers"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What of the application a driver may need, asked for when the driver is made.

    `app_engine` gives the app's own engine, if it has one; `run` is one attempt of a driver's job, here and
    now, which gives the job's error; `testing` is the app's TESTING.
    """

    app_engine: Callable[[], sa.Engine | None]
    instance_path: Path
    run: Callable[[Driver, Reservation], tuple[Settled, Exception | None]]
    testing: bool


class DriverFactory(Protocol):
    """Makes the driver of a connection. `keys` names the settings that it understands beyond the common ones."""

    @property
    def keys(self) -> frozenset[str]:
        """The names of its own settings."""

    def __call__(self, settings: ConnectionSettings, surroundings: Surroundings) -> Driver:
        """The driver for a connection with these settings."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A driver of ours, imported when it is first used."""

    module: str
    keys: frozenset[str]

    def __call__(self, settings: ConnectionSettings, surroundings: Surroundings) -> Driver:
        """The driver for a connection with these settings."""
        create: Callable[[ConnectionSettings, Surroundings], Driver]
        create = importlib.import_module(self.module, __package__).create
        return create(settings, surroundings)


BUILT_IN: Mapping[str, DriverFactory] = {
    "database": BuiltIn(".database", frozenset({"url", "engine", "durable", "wal", "notify"})),
    "redis": BuiltIn(".redis", frozenset({"url", "prefix", "client"})),
    "sync": BuiltIn(".sync", frozenset()),
}


def factory(driver: str, extended: Mapping[str, DriverFactory]) -> DriverFactory:
    """The factory of a driver: given by `Jobs.extend`, ours, or announced by an installed package."""
    known = {**BUILT_IN, **extended}
    if driver in known:
        return known[driver]
    for entry_point in importlib.metadata.entry_points(group=ENTRY_POINTS, name=driver):
        return checked(driver, entry_point.load())
    raise ConfigurationError(
        f"There is no driver {driver!r}. Known are {', '.join(sorted(known))}; others come with a package that "
        f"announces them as {ENTRY_POINTS!r}, or through jobs.extend({driver!r}, factory) before init_app."
    )


def checked(driver: str, found: DriverFactory) -> DriverFactory:
    """The factory, if it is one; raises `ConfigurationError` otherwise."""
    if callable(found) and isinstance(getattr(found, "keys", None), Set):
        return found
    raise ConfigurationError(
        f"The factory of driver {driver!r} is {found!r}: it must be callable and have an attribute `keys`, a set of "
        "the names of its own settings, which may be empty (see DriverFactory)."
    )
