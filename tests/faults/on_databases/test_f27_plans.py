"""Every statement of a worker's day is served by an index: no table is scanned and none sorted, whatever is beside."""

import json
import re
from collections import Counter
from typing import ClassVar

import psycopg2.extensions
import pymysql.cursors
import pytest
import sqlalchemy as sa

from flask_jobs.drivers.database import DatabaseDriver
from flask_jobs.drivers.database.dialects.postgresql import opening
from flask_jobs.envelope import Ack, After, Room
from flask_jobs.ids import new_id
from flask_jobs.testing.contract.chains import chain
from flask_jobs.testing.contract.keys import digest, keyed
from flask_jobs.testing.contract.on_batches import batch, member
from flask_jobs.testing.contract.support import fail
from tests.databases import MARIADB, empty
from tests.faults.support import job

MONTH = 30 * 86_400.0


class PostgresqlRecorder(psycopg2.extensions.cursor):
    statements: ClassVar[list[str]] = []

    def execute(self, query, parameters=None):
        super().execute(query, parameters)
        self.statements.append(self.query.decode())


class MariadbRecorder(pymysql.cursors.Cursor):
    statements: ClassVar[list[str]] = []

    def execute(self, query, args=None):
        # Many rows of one insert come ready made, as bytes.
        self.statements.append(self.mogrify(query if isinstance(query, str) else query.decode(), args))
        return super().execute(query, args)


def recording_engine(url):
    """An engine as an app makes it, and the list that its statements are added to."""
    if url.get_backend_name() == "postgresql":
        recorder, name, key = PostgresqlRecorder, "postgresql+psycopg2", "cursor_factory"
    else:
        recorder, name, key = MariadbRecorder, "mariadb+pymysql", "cursorclass"
    recorder.statements = []
    return sa.create_engine(url.set(drivername=name), connect_args={key: recorder}), recorder.statements


def analyze(engine):
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for table in ("flask_jobs", "flask_jobs_failed", "flask_jobs_ended"):
            verb = "VACUUM ANALYZE" if engine.dialect.name == "postgresql" else "ANALYZE TABLE"
            connection.exec_driver_sql(f"{verb} {table}")


def fill(driver, delayed, failed):
    for _ in range(delayed // 1_000):
        driver.push([job(due=After(MONTH)) for _ in range(1_000)])
    numbers = (
        "SELECT i FROM generate_series(1, :amount) AS n(i)"
        if driver.engine.dialect.name == "postgresql"
        else "SELECT a.i * 1000 + b.i AS i FROM "
        "(SELECT row_number() OVER () - 1 AS i FROM flask_jobs LIMIT :thousands) AS a, "
        "(SELECT row_number() OVER () AS i FROM flask_jobs LIMIT 1000) AS b"
    )
    with driver.engine.begin() as connection:
        connection.execute(
            sa.text(
                "INSERT INTO flask_jobs_failed (failed_at, hook, error_type, error_message, error_traceback, "
                "error_causes, id, name, queue, pushed_at, body) SELECT 1.0, 'ran', 'E', 'm', '', '[]', "
                f"concat('old-', n.i), 'shop.send-invoice', 'default', 1.0, '{{}}' FROM ({numbers}) AS n"
            ),
            {"amount": failed, "thousands": failed // 1_000},
        )


def a_workers_day(driver):
    """Each thing that a worker and a producer do, now and then with something expired."""
    driver.push([job()])
    driver.push([job(), job(front=True), job(due=After(0.0))])
    settlements = []
    for limit in (1, 50, 50, 1):
        room = Room(limit, 1.0, {"shop.send-invoice": 0.001})
        popped = driver.exchange(settlements, ["high", "default"], f"token-{limit}", room).popped
        driver.renew(popped.reservations[:1])
        settlements = [Ack(reservation) for reservation in popped.reservations]
    driver.settle(settlements)
    driver.pop(["high"], "a-token", Room())
    driver.pop(["high"], "a-token", Room())
    a_day_of_jobs_with_ties(driver)


def a_day_of_jobs_with_ties(driver):
    """Unique jobs, some of them duplicates, a chain whose second link fails, and a batch, each to its end."""
    unique, duplicate, bounded = keyed(), keyed(), keyed("invoice:8", seconds=0.0)
    for pushes in ([unique], [duplicate], [keyed("invoice:9"), duplicate, bounded], [keyed("invoice:8")]):
        driver.push(pushes)
    driver.holder(digest(unique))
    plan, members = chain(3), batch(2)
    driver.push_chain(plan)
    driver.push_batch(members)
    driver.add_to_batch(members.id, [member(members.id)])
    for _ in range(12):
        for reservation in driver.pop(["default", "callbacks"], new_id(), Room()).reservations:
            driver.give_back_key(reservation)
            is_last_link = reservation.envelope.ties is not None and reservation.envelope.ties.link == 2
            driver.settle([fail(reservation) if is_last_link else Ack(reservation)])
    driver.chain(plan.id)
    driver.batch(members.id)
    driver.retry_many(new_id, upto=driver.newest_failed(), limit=5)
    driver.push([again := keyed()])
    driver.cancel(again.envelope.id)
    driver.prune_batches(older_than=0.0)


@pytest.fixture
def filled(engine, driver, request):
    amounts, analyzed = request.param
    # Statistics say that the tables are empty.
    empty(engine)
    analyze(engine)
    fill(driver, *amounts)
    driver.push([job() for _ in range(150)])
    if analyzed:
        analyze(engine)
    yield driver
    empty(engine)
    analyze(engine)


FILLINGS = [
    pytest.param((amounts, analyzed), marks=marks, id=f"{amounts[0]}-{'analyzed' if analyzed else 'just-loaded'}")
    for amounts, marks in [((2_000, 1_000), []), ((300_000, 100_000), [pytest.mark.volume, pytest.mark.timeout(900)])]
    for analyzed in (False, True)
]


@pytest.mark.parametrize("filled", FILLINGS, indirect=True)
def test_f27_no_statement_of_a_workers_day_scans_or_sorts_a_table(server, filled):
    engine, statements = recording_engine(filled.engine.url)
    driver = DatabaseDriver(engine, retry_after=60.0)

    a_workers_day(driver)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        found = Counter(kind for text in ours(statements) for kind in plan(server, connection, text))
    driver.close()
    engine.dispose()

    assert found["index"] > 20
    assert set(found) == {"index"}


def ours(statements):
    """The statements on our tables, each once, without the settings that go before it."""
    sent = [re.sub("^((BEGIN|SET [^;]*); )+", "", text) for text in statements]
    # What frees unique keys goes out in one message with the statement that stores the jobs.
    texts = [text for both in sent for text in re.split("; (?=WITH|INSERT|UPDATE)", both)]
    verbs = "SELECT|INSERT|UPDATE|DELETE|WITH"
    return list(dict.fromkeys(text for text in texts if re.match(verbs, text) and "flask_jobs" in text))


LARGE = {
    "flask_jobs",
    "flask_jobs_failed",
    "flask_jobs_ended",
    "flask_jobs_chains",
    "flask_jobs_batches",
    "flask_jobs_planned",
}


def plan(server, connection, text):
    """What is done with each of our large tables: "index", or what should not be done."""
    raw = connection.connection.cursor()
    if server == MARIADB:
        raw.execute(f"EXPLAIN FORMAT=JSON {text}")
        return list(_of_mariadb(json.loads(raw.fetchone()[0]), text))
    raw.execute(f"{opening(lasting=True)}; EXPLAIN (FORMAT JSON) {text}")
    return list(_of_postgresql(raw.fetchone()[0][0]["Plan"], text))


def _of_mariadb(node, text):
    if isinstance(node, list):
        for below in node:
            yield from _of_mariadb(below, text)
        return
    if not isinstance(node, dict):
        return
    if node.get("table_name") in LARGE and "access_type" in node:
        is_served = node["access_type"] not in ("ALL", "index") and "key" in node
        yield "index" if is_served else f"{node['access_type']}: {text[:2000]}"
    for key, below in node.items():
        if key in ("filesort", "temporary_table") and "token = " not in text:
            yield f"{key}: {text[:2000]}"
        yield from _of_mariadb(below, text)


def _of_postgresql(node, text):
    kind, table = node["Node Type"], node.get("Relation Name")
    if kind in ("Index Scan", "Index Only Scan") and table in LARGE:
        yield "index"
    elif table in LARGE and kind != "ModifyTable":
        yield f"{kind} {table}: {text[:2000]}"
    elif "Sort" in kind and any(_is_scan(below) for below in node["Plans"]):
        yield f"{kind}: {text[:2000]}"
    for below in node.get("Plans", ()):
        yield from _of_postgresql(below, text)


def _is_scan(below):
    return below["Parent Relationship"] == "Outer" and below.get("Relation Name") in LARGE
