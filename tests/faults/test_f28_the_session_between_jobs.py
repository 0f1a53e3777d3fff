"""Whatever a job does to its session, the next one starts with a clean one, and the queue loses nothing of its own."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from flask_jobs import Job

from .app import Gated, Row, Violate, db, forget_to_commit, leave_open, read_and_write
from .workers import Site, wait_for


@pytest.fixture
def before(site: Site) -> Site:
    with site.app.app_context():
        db.session.add(Row(id=1, text="first", number=1))
        db.session.commit()
    return site


def found(site: Site) -> list[dict[str, Any]]:
    """What the readers found, in their order."""
    keys = ("known", "in_transaction", "level", "number", "texts")
    return [{key: line[key] for key in keys} for line in site.ledger("end") if "texts" in line]


@pytest.mark.parametrize(
    ("spoiler", "fails"),
    [
        (Violate(swallow=False), 1),
        (Violate(swallow=True), 0),
        (forget_to_commit("never"), 0),
        (leave_open(), 0),
    ],
    ids=["raises in a flush", "swallows the error of a flush", "forgets to commit", "leaves its transaction open"],
)
def test_f28_the_followers_of_a_job_that_spoils_its_session_see_nothing_of_it(
    before: Site, spoiler: Job, fails: int
) -> None:
    before.dispatch(read_and_write("a"), spoiler, read_and_write("b"), spoiler, read_and_write("c"))

    worker = before.work("--stop-when-empty")

    assert worker.ended() == 0
    clean = {"known": 0, "in_transaction": False, "level": "SERIALIZABLE", "number": 1}
    assert found(before) == [
        {**clean, "texts": ["first"]},
        {**clean, "texts": ["a", "first"]},
        {**clean, "texts": ["a", "b", "first"]},
    ]
    assert before.sizes() == (0, 0, 0, 2 * fails)
    assert len(before.ledger("violated")) == (2 if isinstance(spoiler, Violate) else 0)
    assert {line["level"] for line in before.ledger("isolation")} <= {"READ UNCOMMITTED"}
    assert len(worker.lines("ERROR")) == 2 * fails


def test_f28_a_change_from_outside_is_seen_by_the_next_job(before: Site) -> None:
    before.dispatch(read_and_write("a"), Gated("pause"), read_and_write("b"))
    worker = before.work("--stop-when-empty")
    wait_for(lambda: before.ledger("begin", label="pause"))

    connection = sqlite3.connect(before.folder / "app.sqlite", timeout=5)
    connection.execute("UPDATE row SET number = 7 WHERE id = 1")
    connection.commit()
    connection.close()
    before.open_gate("pause", 1)

    assert worker.ended() == 0
    assert [(line["number"], line["known"]) for line in found(before)] == [(1, 0), (7, 0)]
