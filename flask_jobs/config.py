"""What `app.config` says about jobs, checked once and with messages that name the key."""

from __future__ import annotations

import contextlib
import difflib
import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from .errors import ConfigurationError, InvalidArgument
from .validation import count, queue_name, seconds

Clock = Literal["store", "local"]

KEYS = (
    "JOBS_DEFAULT",
    "JOBS_CONNECTIONS",
    "JOBS_SIGN",
    "JOBS_MAX_PAYLOAD",
    "JOBS_BASE_URL",
    "JOBS_STORE",
    "JOBS_RELEASES_SPEND_ATTEMPTS",
    "JOBS_MAINTENANCE",
)

MEMORY = "memory"
"""As the name of a store: the memory of the process."""

DEFAULT_CONNECTIONS: Mapping[str, Mapping[str, object]] = {
    "database": {"driver": "database", "url": None},
    "redis": {"driver": "redis", "url": None},
    "sync": {"driver": "sync"},
}

COMMON: Mapping[str, object] = {
    "queue": "default",
    "retry_after": 90.0,
    "renew": True,
    "after_commit": True,
    "prefetch": "auto",
    "remember_ids": 3600.0,
    "clock": None,
}


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """One connection's settings.

    `retry_after` is the length of a lease and `remember_ids` how long ids are known, both in seconds. `clock` is
    None where nothing is said: the store's, or this host's while the app is TESTING. `prefetch` is how many short jobs
    a worker may take at a time, None for as many as it sees fit. `options` are the driver's own.
    """

    name: str
    driver: str
    queue: str
    retry_after: float
    renew: bool
    after_commit: bool
    prefetch: int | None
    remember_ids: float
    clock: Clock | None
    options: Mapping[str, object]


def _never() -> bool:
    return False


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Config:
    """All JOBS_ settings of one app. `max_payload` is in bytes; `store` None is the one beside a job's connection.

    `maintenance` says whether workers are to take no jobs at the moment. It may be the app's own: it may raise.
    """

    default: str
    connections: Mapping[str, ConnectionSettings]
    sign: bool
    max_payload: int
    base_url: str | None
    store: str | None = None
    releases_spend: bool = False
    maintenance: Callable[[], bool] = _never

    def connection(self, name: str | None) -> ConnectionSettings:
        """The settings of the named connection, or of the default one."""
        wanted = self.default if name is None else name
        try:
            return self.connections[wanted]
        except (KeyError, TypeError):
            raise InvalidArgument(
                f"There is no connection {wanted!r}; known are {_listed(self.connections)}."
            ) from None


def read(source: Mapping[str, Any], driver_keys: Callable[[str], Collection[str]]) -> Config:
    """The settings of an app; `driver_keys` tells what a driver understands, or that there is no such driver."""
    _refuse_unknown(source)
    connections = _connections(source.get("JOBS_CONNECTIONS", {}), driver_keys)
    default = source.get("JOBS_DEFAULT", "database")
    if default not in connections:
        raise ConfigurationError(
            f"JOBS_DEFAULT names the connection {default!r}, which JOBS_CONNECTIONS lacks; known are "
            f"{_listed(connections)}."
        )
    return Config(
        default=default,
        connections=connections,
        sign=_flag(source.get("JOBS_SIGN", True), "JOBS_SIGN"),
        max_payload=_checked(count, source.get("JOBS_MAX_PAYLOAD", 1_048_576), "JOBS_MAX_PAYLOAD"),
        base_url=_base_url(source.get("JOBS_BASE_URL")),
        store=_store(source.get("JOBS_STORE"), connections),
        releases_spend=_flag(source.get("JOBS_RELEASES_SPEND_ATTEMPTS", False), "JOBS_RELEASES_SPEND_ATTEMPTS"),
        maintenance=_maintenance(source.get("JOBS_MAINTENANCE", False)),
    )


def _store(value: object, connections: Mapping[str, ConnectionSettings]) -> str | None:
    # What runs jobs at once keeps nothing beside them.
    known = [name for name, settings in connections.items() if settings.driver != "sync"]
    if value is None or value == MEMORY or value in known:
        return value
    raise ConfigurationError(
        f"JOBS_STORE names the store {value!r}: give the name of a connection ({_listed(known)}), {MEMORY!r}, or "
        "None for the one beside each job's own connection."
    )


def _refuse_unknown(source: Mapping[str, Any]) -> None:
    for key in source:
        if key.startswith("JOBS_") and key not in KEYS:
            raise ConfigurationError(f"There is no setting {key}.{_nearest(key, KEYS)} Known are {_listed(KEYS)}.")


def _connections(given: object, driver_keys: Callable[[str], Collection[str]]) -> dict[str, ConnectionSettings]:
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"JOBS_CONNECTIONS must be a dict of connections, not {type(given).__name__}.")
    names = [*DEFAULT_CONNECTIONS, *(name for name in given if name not in DEFAULT_CONNECTIONS)]
    return {name: _connection(name, given.get(name, {}), driver_keys) for name in names}


def _connection(name: str, given: object, driver_keys: Callable[[str], Collection[str]]) -> ConnectionSettings:
    where = f"JOBS_CONNECTIONS[{name!r}]"
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{where} must be a dict of settings, not {type(given).__name__}.")
    default = DEFAULT_CONNECTIONS.get(name, {})
    if given.get("driver", default.get("driver")) != default.get("driver"):
        default = {}  # another driver under a name of ours: its keys are no defaults for it
    merged = {**COMMON, **default, **given}
    if not isinstance(merged.get("driver"), str):
        raise ConfigurationError(
            f'{where} needs a "driver", such as "database".{_nearest(str(name), DEFAULT_CONNECTIONS)}'
        )
    try:
        own = driver_keys(merged["driver"])
    except ConfigurationError as error:
        raise ConfigurationError(f"{where}['driver']: {error}") from None
    for key in merged:
        if key not in COMMON and key != "driver" and key not in own:
            known = [*COMMON, "driver", *sorted(own)]
            raise ConfigurationError(
                f"{where} has no setting {key!r}.{_nearest(str(key), known)} Known are {_listed(known)}."
            )
    return _settings(name, where, merged, own)


def _settings(name: str, where: str, merged: Mapping[str, Any], own: Collection[str]) -> ConnectionSettings:
    if merged["clock"] not in ("store", "local", None):
        raise ConfigurationError(f'{where}[\'clock\'] is "store" or "local", not {merged["clock"]!r}.')
    retry_after = _checked(seconds, merged["retry_after"], f"{where}['retry_after']")
    if retry_after <= 0:
        raise ConfigurationError(f"{where}['retry_after'] must be more than 0 seconds: it is how long a lease lasts.")
    return ConnectionSettings(
        name=name,
        driver=merged["driver"],
        queue=_checked(lambda value, what: queue_name(value), merged["queue"], f"{where}['queue']"),
        retry_after=retry_after,
        renew=_flag(merged["renew"], f"{where}['renew']"),
        after_commit=_flag(merged["after_commit"], f"{where}['after_commit']"),
        prefetch=_prefetch(merged["prefetch"], f"{where}['prefetch']"),
        remember_ids=_checked(seconds, merged["remember_ids"], f"{where}['remember_ids']"),
        clock=merged["clock"],
        options={key: merged[key] for key in own if key in merged},
    )


def _checked(check: Callable[..., Any], value: object, what: str) -> Any:
    try:
        return check(value, what=what)
    except InvalidArgument as error:
        message = str(error)
        raise ConfigurationError(message if what in message else f"{what}: {message}") from None


def _prefetch(value: object, what: str) -> int | None:
    if value == "auto":
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise ConfigurationError(f'{what} is "auto" or how many short jobs a worker may take at a time, not {value!r}.')


def _flag(value: object, what: str) -> bool:
    if isinstance(value, bool):
        return value
    raise ConfigurationError(f"{what} must be True or False, not {value!r}.")


def _maintenance(value: object) -> Callable[[], bool]:
    if isinstance(value, bool):
        return _always if value else _never
    if callable(value) and not inspect.iscoroutinefunction(value) and _takes_nothing(value):
        return value
    raise ConfigurationError(
        f"JOBS_MAINTENANCE must be True, False, or a plain function without arguments that says which, not {value!r}."
    )


def _takes_nothing(function: Callable[..., object]) -> bool:
    try:
        inspect.signature(function).bind()
    except TypeError:
        return False
    except ValueError:  # written in C without saying what it takes; the call will tell
        return True
    return True


def _base_url(value: object) -> str | None:
    if value is None:
        return None
    with contextlib.suppress(ValueError):  # urlsplit refuses some hosts itself
        parts = urlsplit(value) if isinstance(value, str) else None
        if parts is not None and parts.scheme in ("http", "https") and parts.hostname:
            return str(value)
    raise ConfigurationError(f"JOBS_BASE_URL must be like 'https://shop.example', not {value!r}.")


def _nearest(key: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(key, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _listed(names: Collection[str]) -> str:
    return ", ".join(names)
