"""Ways to the server that holds the keys of a connection: alone, behind a Sentinel, or a node of a Cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import redis
from redis import RedisCluster
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry
from redis.sentinel import Sentinel

CONNECT_LIMIT = 2.0
"""Seconds to connect, unless the URL says otherwise (``?socket_connect_timeout=``)."""

COMMAND_LIMIT = 5.0
"""Seconds for an answer, unless the URL says otherwise (``?socket_timeout=``)."""


class Route(Protocol):
    """Leads to the connections of the server that holds our keys."""

    def pool(self) -> redis.ConnectionPool:
        """The connections."""

    def renew(self) -> None:
        """Find the server anew for the next command: the old way leads nowhere."""

    def close(self) -> None:
        """Close what is ours."""


class QuickPool(redis.ConnectionPool):
    """Hands out the connection that was used last without ceremony: that takes the client as long as a command does."""

    def __init__(self, **options: Any) -> None:
        self._kept: list[Any] = []
        super().__init__(**options)

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        """A connection that is open, and has nothing to say."""
        if (connection := self._take_kept()) is not None:
            if _is_ready(connection):
                return connection
            super().release(connection)
        return super().get_connection(*arguments, **options)

    def release(self, connection: Any) -> None:
        """Take it back."""
        if self._kept:
            super().release(connection)
        else:
            self._kept.append(connection)

    def disconnect(self, inuse_connections: bool = True) -> None:
        """Close the idle connections, or all."""
        while (connection := self._take_kept()) is not None:
            super().release(connection)
        super().disconnect(inuse_connections)

    def _take_kept(self) -> Any:
        try:
            return self._kept.pop()
        except IndexError:
            return None


class PoolRoute:
    """One server, or the primary that a Sentinel names."""

    def __init__(self, pool: redis.ConnectionPool, *, is_ours: bool) -> None:
        self._pool = pool
        self._is_ours = is_ours

    def pool(self) -> redis.ConnectionPool:
        """The connections."""
        return self._pool

    def renew(self) -> None:
        """Drop the idle connections, so that the next one finds whoever answers at the address now."""
        self._pool.disconnect(inuse_connections=False)

    def close(self) -> None:
        """Close the connections if they are ours; they open again when they are used again."""
        if self._is_ours:
            self._pool.disconnect()


class ClusterRoute:
    """The node of a Cluster that holds the slot of our keys, asked for anew when it has moved."""

    def __init__(self, make: Callable[[], RedisCluster], key: str, *, is_ours: bool) -> None:
        self._make = make
        self._key = key
        self._is_ours = is_ours
        self._client: RedisCluster | None = None
        self._is_old = False

    def pool(self) -> redis.ConnectionPool:
        """The connections to our node."""
        client = self._client
        if client is None:
            client = self._client = self._make()
        elif self._is_old:
            client.nodes_manager.initialize()
        self._is_old = False
        node = client.get_node_from_key(self._key)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
        return client.get_redis_connection(node).connection_pool

    def renew(self) -> None:
        """Ask the Cluster again which node it is."""
        self._is_old = True

    def close(self) -> None:
        """Close the connections if they are ours."""
        if self._is_ours and self._client is not None:
            self._client.close()
            self._client = None


def route_to(url: str, key: str) -> Route:
    """The way to the server at this URL, which stays ours to close. Raises `ValueError` or `TypeError` for no URL."""
    if url.startswith(("redis+cluster://", "rediss+cluster://")):
        plain = url.replace("+cluster", "", 1)
        address = urlsplit(plain)
        if not address.hostname or address.port == 0:
            raise ValueError("it names no host and port")
        return ClusterRoute(lambda: RedisCluster.from_url(plain, **_limits()), key, is_ours=True)
    if url.startswith("redis+sentinel://"):
        return PoolRoute(_sentinel_pool(url), is_ours=True)
    return PoolRoute(QuickPool.from_url(url, **_limits()), is_ours=True)


def _is_ready(connection: Any) -> bool:
    # One that was closed would open again to be asked, and wait for a server that is away; one from before a fork is
    # another process's.
    if connection._sock is None or connection.pid != os.getpid():
        return False
    try:
        return not connection.can_read()
    except (RedisError, OSError):  # the server has closed it
        connection.disconnect()
        return False


def _limits() -> dict[str, Any]:
    return {
        "socket_connect_timeout": CONNECT_LIMIT,
        "socket_timeout": COMMAND_LIMIT,
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }


def _sentinel_pool(url: str) -> redis.ConnectionPool:
    parts = urlsplit(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    service, _, database = parts.path.strip("/").partition("/")
    if not hosts or not service:
        raise ValueError("it names no sentinel or no primary")
    addresses = [(host, int(port or 26379)) for host, _, port in (entry.partition(":") for entry in hosts.split(","))]
    own = {"username": unquote(username) or None, "password": unquote(password) or None}
    options = _limits()
    sentinel: Any = Sentinel(addresses, sentinel_kwargs=options)  # type: ignore[no-untyped-call]  # by redis-py
    pool: redis.ConnectionPool = sentinel.master_for(service, db=int(database or 0), **own, **options).connection_pool
    return pool
