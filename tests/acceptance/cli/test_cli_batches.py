from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest

from flask_jobs import Job


def batch(shop: Any, *words: str, **options: Any) -> str:
    """The id of a dispatched batch of notes."""
    with shop.app.app_context():
        notes = [shop.module.Note(word, token="secret") for word in words]
        return str(shop.module.jobs.batch(notes, **options).id)


def test_batches_are_listed_newest_first_with_their_counts(shop: Any) -> None:
    first = batch(shop, "a", "b", name="May")
    shop.invoke("work", "--stop-when-empty")
    second = batch(shop, "c")

    listed = shop.json("batches")["batches"]
    assert [(one["id"], one["total"], one["done"], one["pending"]) for one in listed] == [
        (second, 1, 0, 1),
        (first, 2, 2, 0),
    ]
    assert listed[1]["finished_at"] is not None
    table = shop.invoke("batches").stdout
    assert first in table
    assert "May" in table
    assert shop.json("batches", "--before", second, "--limit", "1")["batches"][0]["id"] == first


def test_the_state_of_a_batch_is_said_in_words(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    running, cancelled = batch(shop, "a"), batch(shop, "b")
    with shop.app.app_context():
        shop.module.jobs.driver().cancel_batch(cancelled)
    began = dt.datetime.fromisoformat(shop.json("show", running)["created_at"]).timestamp()
    monkeypatch.setattr("flask_jobs.clock.now", lambda: began + 15.1)
    monkeypatch.setenv("COLUMNS", "120")

    table = shop.invoke("batches").stdout
    shown = [" ".join(shop.invoke("show", one).stdout.splitlines()[2].split()) for one in (running, cancelled)]

    assert "running for 15 s" in table
    assert shown[0] == "state running for 15 s"
    assert re.fullmatch(r"state cancelled 1\d s ago", shown[1])


def test_there_may_be_no_batches(shop: Any) -> None:
    assert shop.invoke("batches").stdout == "No batches.\n"


def test_prune_deletes_what_is_old_and_keeps_what_runs(shop: Any) -> None:
    batch(shop, "a")
    shop.invoke("work", "--stop-when-empty")
    running = batch(shop, "b", queue="mail")
    shop.fail(2)

    too_young = shop.json("prune", "--force")
    only_batches = shop.json("prune", "--hours", "0", "--batches", "--force")
    rest = shop.json("prune", "--hours", "0", "--force")

    assert too_young["pruned"] == {"failed": 0, "batches": 0}
    assert only_batches["pruned"] == {"failed": 0, "batches": 1}
    assert rest["pruned"]["failed"] == 2
    assert [one["id"] for one in shop.json("batches")["batches"]] == [running]


def test_prune_asks_first(shop: Any) -> None:
    result = shop.invoke("prune", "--hours", "0")

    assert result.exit_code == 1
    assert "--force" in result.output


def test_a_failed_job_whose_unique_key_is_held_is_named_and_stays(shop: Any) -> None:
    class Alone(Job):
        unique = True

        def handle(self) -> None:
            raise ValueError

    Alone.max_attempts = 1
    shop.module.jobs.registry.register("cli.alone")(Alone)
    with shop.app.app_context():
        failed = shop.module.jobs.dispatch(Alone()).id
    shop.invoke("work", "--stop-when-empty")
    with shop.app.app_context():
        holder = shop.module.jobs.dispatch(Alone()).id

    result = shop.invoke("retry", failed)

    assert result.exit_code == 1
    assert holder in result.output
    assert result.stdout == ""
    assert [job["id"] for job in shop.json("failed")["failed"]] == [failed]
    assert shop.json("show", failed)["unique_key"] == "cli.alone"


def test_a_link_shows_its_chain_and_its_place(shop: Any) -> None:
    with shop.app.app_context():
        notes = [shop.module.Note(word, token="secret") for word in "ab"]
        answer = shop.module.jobs.chain(notes)

    shown = shop.json("show", answer.id)
    assert (shown["chain"], shown["link"]) == (answer.chain, 1)
    assert answer.chain in shop.invoke("show", answer.id).stdout
