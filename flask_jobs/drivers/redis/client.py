"""The connection to Redis, and the one place where its errors become ours.

Commands are sent over the client's own connections but one by one and never repeated by themselves: only so is it
known whether a command can have been carried out, and no push or pop happens twice.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable
from typing import Any, NoReturn

import redis
from redis import Redis, RedisCluster
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    ResponseError,
    TryAgainError,
)

from ... import clock
from ...errors import ConfigurationError, ConnectionLost, Stored, StoreRefused
from .routes import ClusterRoute, PoolRoute, Route, route_to
from .wakeful import Wakeful

# How long to wait for a Cluster that is moving our keys, in seconds after each try. While it does, some keys are here
# and some there: no script may run before all are in one place, so it is not followed to where it points meanwhile.
_MOVING = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)

# Before version 5.3 the pool asked for the command's name, since then it warns of it.
_parameters = inspect.signature(redis.ConnectionPool.get_connection).parameters
_NAMES_COMMANDS = _parameters["command_name"].default is inspect.Parameter.empty

_ADVICE = {
    "OOM": "it has reached its maxmemory; workers go on and free memory",
    "READONLY": "it is a read-only replica; the primary is looked for with the next command",
    "MISCONF": "it cannot save to its disk",
    "NOREPLICAS": "it has too few replicas to take writes",
    "MOVED": "it is a node of a Cluster; use redis+cluster:// in the URL, or pass a RedisCluster as client",
    "NOAUTH": "it wants credentials, or not these; check the URL",
    "NOPERM": "this user may not do that; it needs all commands on the keys of the prefix",
}
_UNAVAILABLE = ("LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "UNBLOCKED")

# redis-py takes the word off the message where it has a class for it.
_WORDS = {
    OutOfMemoryError: "OOM",
    ReadOnlyError: "READONLY",
    MovedError: "MOVED",
    AuthenticationError: "NOAUTH",
    AuthenticationWrongNumberOfArgsError: "NOAUTH",
    NoPermissionError: "NOPERM",
    BusyLoadingError: "LOADING",
    MasterDownError: "MASTERDOWN",
    ClusterDownError: "CLUSTERDOWN",
    TryAgainError: "TRYAGAIN",
}

# Servers before version 7 wrap the error of a command within a script, so the word may stand anywhere.
_WORD = re.compile(rf"\b({'|'.join([*_ADVICE, *_UNAVAILABLE])})\b")


_MOVED = (MovedError, AskError, TryAgainError)

# What the server itself has said; it did not carry the command out.
_ANSWERS = (ResponseError, AuthenticationError, BusyLoadingError)


Part = str | bytes | int | float
"""What a command is made of."""


class UnknownScript(Exception):
    """The server does not know the script's hash; nothing was done."""


class Server:
    """Runs commands on the server that holds the keys of one connection. Safe to use from several threads."""

    def __init__(self, route: Route) -> None:
        self._route = route

    @classmethod
    def at(cls, url: str, *, key: str) -> Server:
        """The server at this URL: redis, rediss, unix, redis+cluster or redis+sentinel. `key` is one of our keys."""
        try:
            return cls(route_to(url, key))
        except (ValueError, TypeError) as error:
            raise ConfigurationError(
                f"This is no Redis URL: {error}. Write it like 'redis://127.0.0.1:6379/0', "
                "'redis+cluster://host:6379' or 'redis+sentinel://host:26379/primary-name/0'."
            ) from None

    @classmethod
    def of(cls, client: Redis | RedisCluster, *, key: str) -> Server:
        """The server of a client that stays the caller's to close; its own time limits hold."""
        if isinstance(client, RedisCluster):
            return cls(ClusterRoute(lambda: client, key, is_ours=False))
        if isinstance(client, Redis):
            return cls(PoolRoute(client.connection_pool, is_ours=False))
        raise ConfigurationError(f"client must be a redis.Redis or redis.RedisCluster, not {type(client).__name__}.")

    def run(self, *command: Part) -> Any:
        """The answer to one command, all text in it as bytes.

        Raises `ConnectionLost`, which says whether the command can have been carried out, or `StoreRefused`.
        """
        return self._run(command, _at_once)

    def run_blocking(self, *command: Part, seconds: float, stopping: Callable[[], bool]) -> Any:
        """As `run`, for a command that may block for so many seconds; None as soon as `stopping()` gives it up.

        What it took may then be lost, if it took something at that very moment.
        """

        def is_answered(connection: Any) -> bool:
            ends = clock.monotonic() + seconds
            with Wakeful() as wakeful:
                while (left := ends - clock.monotonic()) > 0 and not wakeful.wait(connection, left):
                    if stopping():
                        return False
            return True  # or its time is over, and the answer must come within the limit of any other

        return self._run(command, is_answered)

    def _run(self, command: tuple[Part, ...], is_answered: Callable[[Any], bool]) -> Any:
        for pause in _MOVING:
            try:
                return self._run_once(command, is_answered)
            except _MOVED:
                self._route.renew()
                time.sleep(pause)
        raise ConnectionLost("The Redis Cluster is moving our keys and no node takes the command. Nothing was done.")

    def close(self) -> None:
        """Close the connections, unless they are the caller's."""
        self._route.close()

    def _run_once(self, command: tuple[Part, ...], is_answered: Callable[[Any], bool]) -> Any:
        pool, connection = self._checkout()
        try:
            connection.send_command(*command)
            if not is_answered(connection):
                connection.disconnect()  # which ends the command on the server, too
                return None
            return connection.read_response(disable_decoding=True)
        except _ANSWERS as error:
            if isinstance(error, ReadOnlyError):
                connection.disconnect()  # it leads to a server that is no primary any more
            self._refuse(error)
        except (RedisError, OSError) as error:
            self._route.renew()
            raise ConnectionLost(
                f"The connection to Redis was lost before the answer came ({_line(error)}). It is unknown whether the "
                "command was carried out.",
                stored=Stored.UNKNOWN,
            ) from error
        except BaseException:
            # Cut short between question and answer (by a signal, say): the late answer must not meet the next command.
            connection.disconnect()
            raise
        finally:
            pool.release(connection)

    def _checkout(self) -> tuple[redis.ConnectionPool, Any]:
        try:
            pool = self._route.pool()
            return pool, pool.get_connection("EVALSHA") if _NAMES_COMMANDS else pool.get_connection()
        except _ANSWERS as error:
            self._refuse(error)
        except (RedisError, RedisClusterException, OSError) as error:
            self._route.renew()
            raise ConnectionLost(
                f"Redis cannot be reached ({_line(error)}). Nothing was sent. Is it running, and does the connection's "
                "url lead to it?"
            ) from error

    def _refuse(self, error: RedisError) -> NoReturn:
        if isinstance(error, NoScriptError):
            raise UnknownScript from None
        if isinstance(error, _MOVED) and isinstance(self._route, ClusterRoute):
            raise error
        word = _word(error)
        if word in _UNAVAILABLE or word == "READONLY":
            self._route.renew()
        if word in _UNAVAILABLE:
            raise ConnectionLost(f"Redis takes no commands just now ({word}). Nothing was done.") from error
        raise StoreRefused(f"Redis refused: {_ADVICE.get(word, _line(error))}. Nothing was written.") from error


def _at_once(connection: Any) -> bool:
    return True


def _word(error: RedisError) -> str:
    for kind, word in _WORDS.items():
        if isinstance(error, kind):
            return word
    found = _WORD.search(_line(error))
    return found.group(1) if found else ""


def _line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
