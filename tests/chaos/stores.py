"""Where the jobs of a run are kept, and what is left there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
import sqlalchemy as sa

from flask_jobs.drivers.database import metadata, open_engine
from flask_jobs.store import Holder, Store, Taken
from tests.faults.stores import common_store, own_server, store_on
from tests.faults.workers import Site
from tests.processes import ServerProcess
from tests.proxy import Proxy, proxy_to
from tests.servers import keys_of

Connection = dict[str, Any]

# What is remembered: of ids, limits and the last restart, and how many have failed. No job hangs on it.
_MEMORY_OF_TABLES = ("_schema", "_ended", "_limits", "_slices", "_tallies")
_MEMORY_OF_KEYS = ("ended:", "turns", "queues", "limit:", "slices:", "tally:", "failed:last")


@contextmanager
def opened(kind: str, folder: Path, *, own: bool = False) -> Iterator[tuple[Connection, ServerProcess | None]]:
    """The settings of a connection to a store of this kind that nobody else uses, on a server of its `own` if wanted.

    SQLite has no server, and for the common one there is none to give.
    """
    with ExitStack() as stack:
        server = stack.enter_context(own_server(kind)) if own and kind != "sqlite" else None
        store = stack.enter_context(common_store(kind, folder)) if server is None else store_on(server)
        site = Site(folder)
        store.serve(site)
        found = site.config.get("JOBS_CONNECTIONS", {}).get("redis")
        yield {"driver": "redis", **found} if found else {"driver": "database", **site.connection}, server


@contextmanager
def proxied(connection: Connection) -> Iterator[tuple[Connection, Proxy]]:
    """The same connection by way of a proxy."""
    is_redis, parts = connection["driver"] == "redis", urlsplit(connection["url"])
    port = parts.port or 6379
    with ExitStack() as stack:
        proxy = stack.enter_context(proxy_to(port, is_redis=is_redis))
        url = connection["url"].replace(f":{port}", f":{proxy.port}", 1)
        yield {**connection, "url": url}, proxy


def left_behind(connection: Connection) -> list[str]:
    """What is still stored and is no memory: names of keys, or of tables with their number of rows."""
    if connection["driver"] == "redis":
        with contextlib.closing(redis.Redis.from_url(connection["url"])) as client:
            names = sorted(key.partition("}:")[2] for key in keys_of(client, connection["prefix"]))
        return [name for name in names if not name.startswith(_MEMORY_OF_KEYS)]
    engine = open_engine(sa.make_url(connection["url"]))
    found = []
    with engine.connect() as opened:
        for table in metadata.sorted_tables:
            rows = opened.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            if rows and not table.name.endswith(_MEMORY_OF_TABLES):
                found.append(f"{rows} rows in {table.name}")
    engine.dispose()
    return found


def held_locks(store: Store, keys: Iterable[str]) -> list[str]:
    """Which of these locks somebody still holds; what a dead holder has left of the others is removed."""
    stranger, held = Holder("the look at the end", "nobody"), []
    for key in keys:
        if isinstance(store.acquire(key, stranger, places=1, seconds=5), Taken):
            held.append(key)
        store.release(key, stranger)
    return held
