"""Redis servers for tests: the one that is there, or one of a test's own that may be stopped, filled and broken."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.processes import LIMIT, ServerProcess, free_port, missing, shared, wait_until
from tests.programs import STEPS, program
from tests.ran_where import note_used

__all__ = ["LIMIT", "free_port", "missing", "wait_until"]

REDIS = "JOBS_TEST_REDIS"

_STANDARD = "redis://127.0.0.1:6379/0"

_SLOTS = 16_384


def plain_client(url: str) -> redis.Redis:
    """A client to look at a server with, which tries everything once."""
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=5, socket_connect_timeout=2)


@cache
def found_redis() -> str | None:
    """The URL of the Redis server for tests: the given one, that at the standard port, or one of this run's own."""
    given = os.environ.get(REDIS)
    for url in [given] if given else [_STANDARD] if "port" in STEPS else []:
        if version(url) is not None:
            return url
    if given or _binary() is None:
        return None
    return shared("redis", _start)


def _start(folder: Path) -> tuple[str, ServerProcess]:
    server = RedisServer(folder, "--save", "")
    server.start()
    return server.url, server


def _binary() -> Path | None:
    return program("redis-server", "valkey-server")


def required_redis() -> str:
    """The URL of the Redis server for tests."""
    url = found_redis()
    if url is None:
        where = os.environ.get(REDIS, _STANDARD)
        missing("Redis", f"no Redis server answers at {where}, and none is installed; set {REDIS}")
    note_used(_called(url))
    return url


@cache
def _called(url: str) -> str:
    return version(url) or "Redis"


def version(url: str) -> str | None:
    """What kind of server answers there and its version; None if none does."""
    client = plain_client(url)
    try:
        facts = client.info("server")
    except redis.RedisError:
        return None
    finally:
        client.close()
    if "valkey_version" in facts:
        return f"Valkey {facts['valkey_version']}"
    return f"Redis {facts['redis_version']}"


@contextmanager
def own_prefix(url: str) -> Iterator[str]:
    """A prefix that nobody else uses; what was stored under it is deleted in the end."""
    prefix = f"test-{secrets.token_hex(6)}"
    try:
        yield prefix
    finally:
        client = plain_client(url)
        delete_keys(client, prefix)
        client.close()


def delete_keys(client: redis.Redis, prefix: str) -> None:
    """Delete every key of the prefix."""
    keys: list[bytes] = []
    for key in client.scan_iter(match=f"{{{prefix}:*", count=1_000):
        keys.append(key)
        if len(keys) == 1_000:
            client.unlink(*keys)
            keys.clear()
    if keys:
        client.unlink(*keys)


def keys_of(client: redis.Redis, prefix: str) -> set[str]:
    """The names of all keys of the prefix."""
    return {key.decode() for key in client.scan_iter(match=f"{{{prefix}:*", count=1_000)}


class RedisServer(ServerProcess):
    """A Redis server of a test's own, on a free port, with its data in a temporary folder."""

    kind = ""
    """What is said of it beside its version."""

    def __init__(self, folder: Path, *options: str, sentinel: Path | None = None) -> None:
        binary = _binary()
        if binary is None:
            missing("Redis", "no redis-server or valkey-server is installed")
        self.port = free_port()
        address = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(folder)]
        # With a configuration of its own it is a Sentinel, which writes down there what it finds.
        super().__init__(folder, [binary, *([str(sentinel), "--sentinel"] if sentinel else []), *address, *options])

    @property
    def url(self) -> str:
        """Where it is; who asks for it is about to use it."""
        url = f"redis://127.0.0.1:{self.port}/0"
        if self._process is not None:
            note_used(f"{_called(url)}{self.kind}")
        return url

    def client(self) -> redis.Redis:
        """A client of the server."""
        return plain_client(self.url)

    def answers(self) -> bool:
        """Whether it serves."""
        client = plain_client(f"redis://127.0.0.1:{self.port}/0")
        try:
            return bool(client.ping())
        except redis.RedisError:
            return False
        finally:
            client.close()


@contextmanager
def redis_server(folder: Path, *options: str, sentinel: Path | None = None) -> Iterator[RedisServer]:
    """A running server of one's own; with a configuration for it, a Sentinel."""
    server = RedisServer(folder, *options, sentinel=sentinel)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class ClusterNode(RedisServer):
    """A node of a Cluster, which the other nodes reach at its `bus`."""

    kind = " Cluster"

    def __init__(self, folder: Path) -> None:
        self.bus = free_port()
        super().__init__(folder, "--cluster-enabled", "yes", "--cluster-port", str(self.bus), "--save", "")


@contextmanager
def redis_cluster(folder: Path) -> Iterator[list[ClusterNode]]:
    """A Cluster of three primaries on the loopback."""
    nodes: list[ClusterNode] = []
    try:
        for name in ("a", "b", "c"):
            (folder / name).mkdir()
            nodes.append(ClusterNode(folder / name))
            nodes[-1].start()
        _join(nodes)
        yield nodes
    finally:
        for node in nodes:
            node.kill()


def _join(nodes: list[ClusterNode]) -> None:
    clients = [node.client() for node in nodes]
    for number, client in enumerate(clients):
        client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        first, end = (_SLOTS * place // len(nodes) for place in (number, number + 1))
        client.execute_command("CLUSTER ADDSLOTS", *range(first, end))
    for client in clients[1:]:
        client.execute_command("CLUSTER MEET", "127.0.0.1", nodes[0].port, nodes[0].bus)
    for client in clients:
        wait_until(lambda client=client: _is_up(client), what="the Cluster")
        client.close()


def _is_up(client: redis.Redis) -> bool:
    answer = client.execute_command("CLUSTER INFO")
    facts = answer if isinstance(answer, dict) else dict(line.split(":") for line in answer.decode().split())
    return facts["cluster_state"] == "ok" and facts["cluster_known_nodes"] == "3"
