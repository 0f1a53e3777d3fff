"""The shop runs unchanged on each server: one variable of the environment says where its jobs are kept."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from werkzeug.serving import make_server

from example_app.extensions import db
from flask_jobs.cli import jobs_cli
from flask_jobs.drivers.database import metadata
from tests.acceptance.shop import ORDER, Shop, wait_for
from tests.databases import MARIADB, POSTGRESQL, own_database, required_server
from tests.servers import keys_of, own_prefix, plain_client, required_redis

REMEMBERED = ("flask_jobs_schema", "flask_jobs_ended", "flask_jobs_limits", "flask_jobs_slices")
"""Tables that keep rows when no job is left: their version, and for a while used ids and what is spent of limits."""
REMEMBERED_KEYS = ("queues", "ended:", "limit:", "slices:")
"""How the names of the keys begin that do the same on Redis."""


@contextmanager
def kept_in_sqlite(folder: Path) -> Iterator[Shop]:
    yield Shop(folder)


@contextmanager
def kept_in_postgresql(folder: Path) -> Iterator[Shop]:
    with own_database(required_server(POSTGRESQL), f"flask_jobs_shop_{os.getpid()}") as url:
        yield Shop(folder, {"FLASK_SQLALCHEMY_DATABASE_URI": url.render_as_string(hide_password=False)})


@contextmanager
def kept_in_mariadb(folder: Path) -> Iterator[Shop]:
    with own_database(required_server(MARIADB), f"flask_jobs_shop_{os.getpid()}") as url:
        yield Shop(folder, {"FLASK_SQLALCHEMY_DATABASE_URI": url.render_as_string(hide_password=False)})


@contextmanager
def kept_in_redis(folder: Path) -> Iterator[Shop]:
    url = required_redis()
    with own_prefix(url) as prefix:
        # The last two only keep the test to itself on a server that it shares.
        address = {"FLASK_JOBS_CONNECTIONS__redis__url": url, "FLASK_JOBS_CONNECTIONS__redis__prefix": prefix}
        yield Shop(folder, {"FLASK_JOBS_DEFAULT": "redis", **address})


@pytest.fixture(params=[kept_in_sqlite, kept_in_postgresql, kept_in_mariadb, kept_in_redis])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    kept_in: Callable[[Path], AbstractContextManager[Shop]] = request.param
    with kept_in(tmp_path) as shop:
        yield shop
        shop.close()


def command(shop: Shop, *arguments: str) -> str:
    """What a command on jobs prints, run in the process of the web server."""
    result = shop.app.test_cli_runner().invoke(jobs_cli, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def stored(shop: Shop) -> list[dict[str, Any]]:
    jobs: list[dict[str, Any]] = json.loads(command(shop, "list", "--json"))["jobs"]
    return jobs


def has_tables(shop: Shop) -> bool:
    return "FLASK_JOBS_DEFAULT" not in shop.settings


def post(shop: Shop, path: str, document: object) -> int:
    """Send a document to the shop over HTTP, and return the status of its answer."""
    server = make_server("127.0.0.1", 0, shop.app)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", path, json.dumps(document), {"Content-Type": "application/json"})
    status = connection.getresponse().status
    connection.close()
    thread.join()
    server.server_close()
    return status


def left_behind(shop: Shop) -> set[str]:
    """Where jobs, waiting or failed, are still stored."""
    if not has_tables(shop):
        return keys_left(
            shop.settings["FLASK_JOBS_CONNECTIONS__redis__url"], shop.settings["FLASK_JOBS_CONNECTIONS__redis__prefix"]
        )
    with shop.app.app_context(), db.engine.connect() as connection:
        tables = [table for table in metadata.sorted_tables if table.name not in REMEMBERED]
        return {table.name for table in tables if connection.execute(sa.select(table).limit(1)).first()}


def keys_left(url: str, prefix: str) -> set[str]:
    """The keys that hold jobs."""
    client = plain_client(url)
    names = {key.partition("}:")[2] for key in keys_of(client, prefix)}
    client.close()
    return {name for name in names if not name.startswith(REMEMBERED_KEYS)}


def test_an_order_over_http_is_fulfilled_by_a_worker_of_another_process_and_nothing_is_left(shop: Shop) -> None:
    if has_tables(shop):
        command(shop, "init-db")
    worker = shop.start("jobs", "work", "--queue", "default,low")
    try:
        assert post(shop, "/orders", ORDER) == 201
        wait_for(lambda: shop.orders()[0]["status"] == "shipped", "the end of the chain")
        # The last step says that it is done before its end is stored.
        wait_for(lambda: len(stored(shop)) == 1, "the end of every job but the one that is due later")
        (review,) = stored(shop)
        command(shop, "cancel", review["id"], "--force")
        worker.send_signal(signal.SIGTERM)
        _, said = worker.communicate(timeout=30)
    finally:
        worker.kill()
        worker.communicate()

    assert worker.returncode == 0, said
    assert shop.documents() == ["INV-00001.html"]
    assert shop.recipients() == ["ada@mail.example"]
    assert shop.charges() == ["order-1"]
    assert shop.documents("labels") == ["order-00001.txt"]
    assert review["name"] == "orders.ask-for-review"
    assert left_behind(shop) == set()


def test_two_processes_may_make_the_tables_of_the_shop_at_once(tmp_path: Path) -> None:
    with kept_in_postgresql(tmp_path) as shop:
        with shop.app.app_context():
            db.drop_all()
            with db.engine.begin() as first:
                db.metadata.create_all(first)
                second = shop.start("routes")
                wait_for(lambda: waits_for_a_lock(), "the second one to wait for the first")
        _, said = second.communicate(timeout=60)
        shop.close()

    assert second.returncode == 0, said


def waits_for_a_lock() -> bool:
    """Whether a session of the current app's database waits for another one."""
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with db.engine.connect() as connection:
        return connection.exec_driver_sql(waiting).first() is not None
