"""Servers for tests: the one that is there, or one of a test's own that may be stopped, filled and broken."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

REDIS = os.environ.get("FLASK_JOBS_TEST_REDIS", "redis://127.0.0.1:6379/0")

LIMIT = 15.0
"""Seconds for anything that is waited for."""


def plain_client(url: str) -> redis.Redis:
    """A client to look at a server with, which tries everything once."""
    return redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=5, socket_connect_timeout=2)


def missing(why: str) -> NoReturn:
    """Skip the test with one clear line; where all servers must be there, fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


@cache
def found_redis() -> str | None:
    """The URL of the Redis server for tests: the one that answers, else one started for this run, else None."""
    client = plain_client(REDIS)
    try:
        client.ping()
    except redis.RedisError:
        return None if os.environ.get("FLASK_JOBS_TEST_REDIS") else _started_redis()
    finally:
        client.close()
    return REDIS


def _started_redis() -> str | None:
    if _redis_binary() is None:
        return None
    folder = tempfile.TemporaryDirectory(prefix="flask_jobs-redis-")
    server = RedisServer(Path(folder.name), "--save", "")
    server.start()
    atexit.register(folder.cleanup)
    atexit.register(server.kill)
    return server.url


def _redis_binary() -> str | None:
    return shutil.which("redis-server") or shutil.which("valkey-server")


def required_redis() -> str:
    """The URL of the Redis server for tests."""
    url = found_redis()
    if url is None:
        missing(f"no Redis server answers at {REDIS}, and none is installed; set FLASK_JOBS_TEST_REDIS")
    return url


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


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class RedisServer:
    """A Redis server of a test's own, on a free port, with its data in a temporary folder."""

    def __init__(self, folder: Path, *options: str, sentinel: Path | None = None) -> None:
        binary = _redis_binary()
        if binary is None:
            missing("no redis-server or valkey-server is installed")
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        address = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(folder)]
        # With a configuration of its own it is a Sentinel, which writes down there what it finds.
        self._command = [binary, *([str(sentinel), "--sentinel"] if sentinel else []), *address, *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, or start again with the data that was saved, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        client = self.client()
        wait_until(lambda: _answers(client), what="the Redis server's first answer")
        client.close()

    def stop(self) -> None:
        """Stop politely, saving what it is set up to save."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(LIMIT)
            self._process = None

    def kill(self) -> None:
        """Stop at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(LIMIT)
            self._process = None

    def signal(self, number: int) -> None:
        """Send the server's process a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def client(self) -> redis.Redis:
        """A client of the server."""
        return plain_client(self.url)


@contextmanager
def redis_server(folder: Path, *options: str, sentinel: Path | None = None) -> Iterator[RedisServer]:
    """A running server of one's own; with a configuration for it, a Sentinel."""
    server = RedisServer(folder, *options, sentinel=sentinel)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def redis_cluster(folder: Path) -> Iterator[list[RedisServer]]:
    """A Cluster of three primaries on the loopback."""
    administration = shutil.which("redis-cli")
    if administration is None:
        missing("no redis-cli is installed, which joins the nodes of a Cluster")
    nodes: list[RedisServer] = []
    try:
        for name in ("a", "b", "c"):
            (folder / name).mkdir()
            options = ["--cluster-enabled", "yes", "--cluster-port", str(free_port()), "--save", ""]
            nodes.append(RedisServer(folder / name, *options))
            nodes[-1].start()
        addresses = [f"127.0.0.1:{node.port}" for node in nodes]
        join = [administration, "--cluster", "create", *addresses, "--cluster-yes"]
        subprocess.run(join, check=True, capture_output=True, timeout=60)
        for node in nodes:
            client = node.client()
            wait_until(lambda client=client: _cluster_is_up(client), what="the Cluster")
            client.close()
        yield nodes
    finally:
        for node in nodes:
            node.kill()


def _cluster_is_up(client: redis.Redis) -> bool:
    answer = client.execute_command("CLUSTER INFO")
    facts = answer if isinstance(answer, dict) else dict(line.split(":") for line in answer.decode().split())
    return facts["cluster_state"] == "ok" and facts["cluster_known_nodes"] == "3"


def wait_until(condition: object, *, what: str, within: float = LIMIT) -> None:
    """Wait for the condition, and fail if it does not come true."""
    assert callable(condition)
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
