"""Which statements count as a write."""

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.engine.default import DefaultExecutionContext

from flask_jobs.statements import only_reads

orders = sa.table("orders", sa.column("id"), sa.column("state"))


class Context(DefaultExecutionContext):
    """What SQLAlchemy hands to a listener, as far as it is looked at."""

    def __init__(self, compiled):
        self.compiled = compiled


def judge(statement, dialect):
    compiled = statement.compile(dialect=dialect)
    return only_reads(str(compiled), Context(compiled))


DIALECTS = {"sqlite": sqlite.dialect(), "postgresql": postgresql.dialect(), "mysql": mysql.dialect()}

deleted = sa.delete(orders).returning(orders.c.id).cte("deleted")

READS = {
    "select": sa.select(orders),
    "union": sa.union(sa.select(orders.c.id), sa.select(orders.c.id).limit(1)),
    "cte": sa.select(sa.select(orders).cte("some").c.id),
    "exists": sa.select(sa.exists().where(orders.c.id == 1)),
    "the words in a value": sa.select(orders).where(orders.c.state == sa.literal_column("'WITH UPDATE'")),
    "text": sa.text("SELECT 1"),
    "text with columns": sa.text("SELECT id FROM orders").columns(orders.c.id),
}

WRITES = {
    "insert": sa.insert(orders).values(id=1),
    "update": sa.update(orders).values(state="x"),
    "delete": sa.delete(orders),
    "insert from select": sa.insert(orders).from_select(["id"], sa.select(orders.c.id)),
    "for update": sa.select(orders).with_for_update(),
    "for share": sa.select(orders).with_for_update(read=True),
    "for key share": sa.select(orders).with_for_update(read=True, key_share=True),
    "text with columns": sa.text("DELETE FROM orders RETURNING id").columns(orders.c.id),
    "text": sa.text("UPDATE orders SET state = 'x'"),
    "a changing common table expression": sa.select(deleted.c.id),
    "one beside the select": sa.select(orders.c.id).add_cte(sa.insert(orders).values(id=1).cte("new")),
}


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("statement", READS.values(), ids=READS)
def test_a_plain_select_only_reads(statement, dialect):
    assert judge(statement, dialect)


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
@pytest.mark.parametrize("statement", WRITES.values(), ids=WRITES)
def test_all_else_is_a_write(statement, dialect):
    assert not judge(statement, dialect)


def test_a_lock_in_a_subquery_is_a_write_where_the_database_has_it():
    inner = sa.select(orders.c.id).with_for_update(skip_locked=True).subquery()

    assert not judge(sa.select(inner.c.id), DIALECTS["postgresql"])


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1",
        "\n  select * from orders",
        "(SELECT 1) UNION (SELECT 2)",
        "-- by the report\nSELECT 1",
        "/* by\nthe report */ SELECT 1",
        "SAVEPOINT sa_savepoint_1",
        "RELEASE SAVEPOINT sa_savepoint_1",
        "ROLLBACK TO SAVEPOINT sa_savepoint_1",
        "BEGIN IMMEDIATE",
    ],
)
def test_the_text_of_a_read(statement):
    assert only_reads(statement, None)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO orders VALUES (1)",
        "SELECTED",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "PRAGMA foreign_keys = ON",
        "CREATE TABLE x (id INTEGER)",
        "SET LOCAL lock_timeout = '1s'",
        "SELECT * FROM orders FOR UPDATE",
        "select * from orders\nfor no key update skip locked",
        "SELECT * FROM orders LOCK IN SHARE MODE",
        "/* SELECT 1 */ DELETE FROM orders",
        "-- SELECT 1\nDELETE FROM orders",
        "",
    ],
)
def test_the_text_of_a_write(statement):
    assert not only_reads(statement, None)
