"""Jobs in Redis 6.2 or newer, or Valkey: one server, a primary behind Sentinel, or a Cluster.

redis-py is imported when a connection is made, so that it is needed by those alone who use it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ...config import ConnectionSettings
from ...errors import ConfigurationError
from .. import Surroundings

if TYPE_CHECKING:
    from .driver import RedisDriver

DEFAULT_URL = "redis://127.0.0.1:6379/0"
DEFAULT_PREFIX = "flask_jobs"


def create(settings: ConnectionSettings, surroundings: Surroundings) -> RedisDriver:
    """The driver of a connection with ``"driver": "redis"``."""
    try:
        opening = importlib.import_module(".opening", __package__)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "redis":
            raise
        raise ConfigurationError(
            f'The connection {settings.name!r} needs the client for Redis: pip install "redis>=5"'
        ) from None
    driver: RedisDriver = opening.open_driver(settings, testing=surroundings.testing)
    return driver
