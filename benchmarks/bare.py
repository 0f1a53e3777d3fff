"""The least that a queue in each store can do: the same bodies, and neither jobs nor an app around them.

What is inserted waits in order. One step ends what was taken before and takes the next, in one transaction or, where
the store can, in one round trip.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Protocol

import psycopg
import pymysql  # type: ignore[import-untyped]  # it has no annotations
import redis
import sqlalchemy as sa

Taken = tuple[Sequence[Any], Sequence[str | bytes]]


class Bare(Protocol):
    """A queue, and nothing else."""

    def prepare(self) -> None:
        """Make what the store must have."""

    def insert(self, bodies: Sequence[str]) -> None:
        """Store the bodies in one step."""

    def exchange(self, done: Sequence[Any], room: int) -> Taken:
        """End these, and take up to `room` others: what they are ended by, and their bodies."""


def open_bare(store: str, url: str) -> Bare:
    """The bare queue in this store."""
    match store:
        case "Redis":
            return BareRedis(url)
        case "PostgreSQL":
            return BarePostgresql(url)
        case "MariaDB":
            return BareMysql(sa.make_url(url))
        case _:
            return BareSqlite(url)


class BareSqlite:
    """In a file with the journal and the durability that the library has by default."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, timeout=30)
        self._connection.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")

    def prepare(self) -> None:
        self._connection.executescript(
            "CREATE TABLE IF NOT EXISTS job (seq INTEGER PRIMARY KEY, state INT, at REAL, body TEXT);"
            "CREATE INDEX IF NOT EXISTS job_next ON job (state, at, seq);"
        )

    def insert(self, bodies: Sequence[str]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO job (state, at, body) VALUES (0, 0, ?)", [(body,) for body in bodies])
        self._connection.execute("COMMIT")

    def exchange(self, done: Sequence[Any], room: int) -> Taken:
        execute, executemany = self._connection.execute, self._connection.executemany
        if not done and not execute("SELECT 1 FROM job WHERE state = 0 LIMIT 1").fetchone():
            return (), ()  # who waits holds no lock
        execute("BEGIN IMMEDIATE")
        executemany("DELETE FROM job WHERE seq = ?", done)
        found = execute("SELECT seq, body FROM job WHERE state = 0 ORDER BY at, seq LIMIT ?", (room,)).fetchall()
        taken = [(seq,) for seq, _body in found]
        executemany("UPDATE job SET state = 2, at = 1 WHERE seq = ?", taken)
        execute("COMMIT")
        return taken, [body for _seq, body in found]


class BarePostgresql:
    """Inserts are flushed as the server is set up; taking and ending are not waited for, as the library has it."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def prepare(self) -> None:
        # Not IF NOT EXISTS, which waits for whoever uses the table.
        if self._connection.execute("SELECT 1 WHERE to_regclass('job') IS NOT NULL").fetchone():
            return
        self._connection.execute(
            "CREATE TABLE job (seq BIGSERIAL PRIMARY KEY, state SMALLINT, at FLOAT8, body TEXT);"
            "CREATE INDEX job_next ON job (state, at, seq)"
        )

    def insert(self, bodies: Sequence[str]) -> None:
        self._connection.execute(
            "INSERT INTO job (state, at, body) SELECT 0, 0, unnest(%s::text[])", (list(bodies),), prepare=True
        )

    def exchange(self, done: Sequence[Any], room: int) -> Taken:
        with self._connection.pipeline(), self._connection.transaction():
            self._connection.execute("SET LOCAL synchronous_commit = off", prepare=True)
            cursor = self._connection.execute(
                "WITH gone AS (DELETE FROM job WHERE seq = ANY(%s)) UPDATE job SET state = 2, at = 1 WHERE seq = ANY("
                "ARRAY(SELECT seq FROM job WHERE state = 0 ORDER BY at, seq LIMIT %s FOR UPDATE SKIP LOCKED)) "
                "RETURNING seq, body",
                (list(done), room),
                prepare=True,
            )
        found = cursor.fetchall()
        return [seq for seq, _body in found], [body for _seq, body in found]


class BareMysql:
    """On MySQL or MariaDB, in transactions that read what is committed."""

    def __init__(self, url: sa.URL) -> None:
        self._connection = pymysql.connect(
            host=url.host or "127.0.0.1",
            port=url.port or 3306,
            user=url.username,
            password=url.password or "",
            database=url.database,
        )
        self._cursor = self._connection.cursor()
        self._cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    def prepare(self) -> None:
        if self._cursor.execute("SHOW TABLES LIKE 'job'"):
            return
        self._cursor.execute(
            "CREATE TABLE job (seq BIGINT AUTO_INCREMENT PRIMARY KEY, state SMALLINT, at DOUBLE, "
            "body LONGTEXT, KEY job_next (state, at, seq)) ENGINE InnoDB"
        )

    def insert(self, bodies: Sequence[str]) -> None:
        self._cursor.executemany("INSERT INTO job (state, at, body) VALUES (0, 0, %s)", [(body,) for body in bodies])
        self._connection.commit()

    def exchange(self, done: Sequence[Any], room: int) -> Taken:
        if done:
            self._cursor.execute("DELETE FROM job WHERE seq IN %s", (done,))
        self._cursor.execute(
            "SELECT seq, body FROM job WHERE state = 0 ORDER BY at, seq LIMIT %s FOR UPDATE SKIP LOCKED", (room,)
        )
        found = self._cursor.fetchall()
        taken = [seq for seq, _body in found]
        if taken:
            self._cursor.execute("UPDATE job SET state = 2, at = 1 WHERE seq IN %s", (taken,))
        self._connection.commit()
        return taken, [body for _seq, body in found]


_PUSH = """
local ids = {}
for i, body in ipairs(ARGV) do
  local id = redis.call('INCR', KEYS[1] .. 'seq')
  redis.call('HSET', KEYS[1] .. 'jobs', id, body)
  ids[i] = id
end
redis.call('RPUSH', KEYS[1] .. 'ready', unpack(ids))
"""

_EXCHANGE = """
for i = 2, #ARGV do
  redis.call('HDEL', KEYS[1] .. 'jobs', ARGV[i])
  redis.call('ZREM', KEYS[1] .. 'reserved', ARGV[i])
end
local ids = redis.call('LPOP', KEYS[1] .. 'ready', ARGV[1])
if not ids then return {{}, {}} end
local leases = {}
for i, id in ipairs(ids) do
  leases[2 * i - 1], leases[2 * i] = 1, id
end
redis.call('ZADD', KEYS[1] .. 'reserved', unpack(leases))
return {ids, redis.call('HMGET', KEYS[1] .. 'jobs', unpack(ids))}
"""


class BareRedis:
    """Bodies in a hash, ids in a list and a sorted set; each step is one script."""

    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url)
        self._head = "{bare}:"
        self._push = self._client.register_script(_PUSH)
        self._exchange = self._client.register_script(_EXCHANGE)

    def prepare(self) -> None:
        self._client.ping()

    def insert(self, bodies: Sequence[str]) -> None:
        self._push(keys=[self._head], args=list(bodies))

    def exchange(self, done: Sequence[Any], room: int) -> Taken:
        taken, bodies = self._exchange(keys=[self._head], args=[room, *done])
        return taken, bodies
