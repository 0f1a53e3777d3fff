"""Makes the driver that a connection's settings describe."""

from __future__ import annotations

from typing import Any

from ...config import ConnectionSettings
from ...errors import ConfigurationError
from . import DEFAULT_PREFIX, DEFAULT_URL
from .driver import RedisDriver


def open_driver(settings: ConnectionSettings, *, testing: bool) -> RedisDriver:
    """The driver; nothing is sent before it is used. A `client` goes before a `url`."""
    client: Any = settings.options.get("client")
    if isinstance(client, str):
        raise ConfigurationError(f"JOBS_CONNECTIONS[{settings.name!r}]['client'] is a URL; put it under 'url'.")
    return RedisDriver(
        _text(settings, "url", DEFAULT_URL) if client is None else client,
        prefix=_text(settings, "prefix", DEFAULT_PREFIX),
        connection=settings.name,
        retry_after=settings.retry_after,
        remember_ids=settings.remember_ids,
        clock=settings.clock or ("local" if testing else "store"),
    )


def _text(settings: ConnectionSettings, key: str, default: str) -> str:
    value = settings.options.get(key)
    if value is None:
        return default
    if isinstance(value, str):
        return value
    raise ConfigurationError(f"JOBS_CONNECTIONS[{settings.name!r}][{key!r}] must be text, not {type(value).__name__}.")
