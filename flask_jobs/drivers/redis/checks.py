"""What a server must be like, looked at when a worker starts."""

from __future__ import annotations

import logging
import re

from ...errors import ConfigurationError
from .client import Server
from .values import decoded

logger = logging.getLogger(__name__)

OLDEST = (6, 2)


def check_server(server: Server) -> None:
    """Raise `ConfigurationError` for a server that is too old; warn of one that may throw jobs away."""
    facts = dict(re.findall(r"^(\w+):(.*?)\r?$", decoded(server.run("INFO")), re.MULTILINE))
    version = facts.get("redis_version", "")
    if (found := re.match(r"(\d+)\.(\d+)", version)) and (int(found[1]), int(found[2])) < OLDEST:
        raise ConfigurationError(f"Redis {version} is too old: flask_jobs needs 6.2 or newer, or Valkey.")
    policy = facts.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        logger.warning(
            "Redis may throw jobs away when its memory is full: its maxmemory-policy is %s. Set it to noeviction, and "
            "give caches a server of their own.",
            policy,
        )
