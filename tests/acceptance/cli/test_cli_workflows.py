from __future__ import annotations

import time
from typing import Any

import pytest

from flask_jobs.envelope import Hook


def chain(shop: Any, *links: Any, **options: Any) -> Any:
    with shop.app.app_context():
        return shop.module.jobs.chain(links, **options)


def words(output: str) -> list[list[str]]:
    return [line.split() for line in output.splitlines() if line]


def test_the_id_of_a_chain_shows_its_links_and_how_far_it_is(shop: Any) -> None:
    note, boom = shop.module.Note, shop.module.Boom
    answer = chain(shop, note("a"), note("b"), boom(), catch=note("sorry"))
    shop.invoke("work", "--once")

    document = shop.json("show", answer.chain)
    shown = words(shop.invoke("show", answer.chain).stdout)

    assert (document["chain"], document["link"], document["total"]) == (answer.chain, 2, 3)
    assert (document["job"]["name"], document["job"]["state"]) == ("shop.note", "ready")
    assert [link["name"] for link in document["waiting"]] == ["shop.boom"]
    assert document["catch"]["name"] == "shop.note"
    assert shown[:2] == [["chain", answer.chain], ["state", "at", "link", "2", "of", "3"]]
    assert [" ".join(row[:2]) for row in shown[-4:]] == ["1 done", "2 shop.note", "3 shop.boom", "catch shop.note"]
    assert shown[-3][2:5] == [document["job"]["id"], "ready", "for"]


def test_a_chain_that_has_stopped_shows_where_and_what_became_of_its_catch(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    note = shop.module.Note
    answer = chain(shop, shop.module.Boom(), note("b"), catch=note("sorry"))
    shop.invoke("work", "--once", "--tries", "1")
    (sorry,) = shop.json("list")["jobs"]

    stopped = shop.invoke("show", answer.chain).stdout.splitlines()
    shop.invoke("work", "--once")
    later = shop.invoke("show", answer.chain).stdout.splitlines()

    assert stopped[1].split() == ["state", "stopped", "at", "link", "1", "of", "2"]
    assert stopped[-2].split()[:2] == ["2", "shop.note"]
    assert stopped[-2].rstrip().endswith(" if link 1 is retried")
    assert stopped[-1].split()[:4] == ["catch", "shop.note", sorry["id"], "ready"]
    assert (shop.notes, later[-1].split()) == (["boom", "sorry"], ["catch", "has", "ended,", "if", "any"])


def test_explain_says_at_which_link_a_chain_has_stopped_and_why(shop: Any) -> None:
    answer = chain(shop, shop.module.Note("a"), shop.module.Boom("no card"), shop.module.Note("c"))
    shop.invoke("work", "--once")
    shop.invoke("work", "--once", "--tries", "1")

    said = shop.invoke("explain", answer.chain).stdout.splitlines()

    assert said[0].startswith("The chain has stopped at link 2 of 3, the job ")
    assert "Failed for good now after 1 attempt with ValueError: no card." in said[0]
    assert "attempt 1 raised an error" in said[1]
    assert shop.json("explain", answer.chain)["explanation"] == said[0]


def test_the_id_of_a_batch_shows_and_explains_its_counts(shop: Any) -> None:
    with shop.app.app_context():
        members = [shop.module.Note("a"), shop.module.Note("b"), shop.module.Boom()]
        batch = shop.module.jobs.batch(members, name="May", allow_failures=True).id
    shop.invoke("work", "--once")

    document = shop.json("show", batch)
    shown = words(shop.invoke("show", batch).stdout)

    assert (document["id"], document["total"], document["pending"], document["done"]) == (batch, 3, 2, 1)
    assert ["batch", batch] in shown
    assert ["done", "1"] in shown
    assert shop.invoke("explain", batch).stdout.startswith(
        "1 of 3 members of the batch have ended: 1 done, 0 failed, 0 skipped. It was dispatched "
    )


def test_a_link_and_a_member_are_shown_in_words(shop: Any) -> None:
    first = chain(shop, shop.module.Note("a"), shop.module.Note("b"))
    with shop.app.app_context():
        batch = shop.module.jobs.batch([shop.module.Note("c")])
    (member,) = [job["id"] for job in shop.json("list")["jobs"] if job.get("batch") == batch.id]

    link = words(shop.invoke("show", first.id).stdout)
    other = words(shop.invoke("show", member).stdout)

    assert ["link", "1", "of", "2"] in link
    assert ["batch", batch.id] in other
    assert not [line for line in link + other if line[0] == "callback"]


def test_the_id_of_a_job_that_was_retried_names_the_new_one(shop: Any) -> None:
    old, other = shop.fail(2)
    shop.dispatch(shop.module.Note("another"))
    new = shop.json("retry", old)["retried"][0]["new_id"]

    waiting = shop.invoke("show", old)
    shop.reserve(count=10)
    running = shop.invoke("explain", old)

    assert waiting.exit_code == running.exit_code == 1
    expected = f"There is no job '{old}' on connection 'database': it had failed and was retried as {new}.\n"
    assert waiting.stderr == running.stderr == f"Error: {expected}"
    assert other in shop.invoke("show", other).stdout


def test_a_retried_job_that_failed_again_is_named_as_well(shop: Any) -> None:
    old = shop.dispatch(shop.module.Boom())
    shop.invoke("work", "--once", "--tries", "1")
    new = shop.json("retry", old)["retried"][0]["new_id"]
    shop.invoke("work", "--once", "--tries", "1")

    assert f"retried as {new}" in shop.invoke("show", old).stderr


@pytest.mark.parametrize("hook", ["none", "ran", "raised", "pending"])
def test_what_became_of_the_hook_is_shown_in_words_if_there_is_one(shop: Any, hook: str) -> None:
    (job_id,) = shop.fail(1)
    with shop.driver() as driver:
        driver.note_hook(job_id, Hook(hook))

    shown = [line[1:] for line in words(shop.invoke("show", job_id).stdout) if line[0] == "failed()"]

    said = {"ran": "has run", "raised": "raised an error", "pending": "has not run yet"}
    assert shown == ([said[hook].split()] if hook in said else [])


def test_a_lease_that_is_over_is_spoken_of_in_the_past(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.config["JOBS_CONNECTIONS"] = {"database": {"retry_after": 0.01}}
    job_id = shop.dispatch(shop.module.Note("x"))
    shop.reserve()
    later = time.time() + 17
    monkeypatch.setattr("flask_jobs.clock.now", lambda: later)
    monkeypatch.setenv("COLUMNS", "120")

    assert "running, lease ended 1" in shop.invoke("list").stdout
    assert "running, lease ended 1" in shop.invoke("show", job_id).stdout


def test_a_retry_of_nothing_but_an_unknown_id_says_nothing_but_that(shop: Any) -> None:
    result = shop.invoke("retry", "nonsense")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "Error: No failed job has the id 'nonsense' on connection 'database'.\n"


def test_a_traceback_begins_in_the_application(shop: Any) -> None:
    job_id = shop.dispatch(shop.module.Boom("no card"))
    logged = shop.flask("work", "--once", "--tries", "1").stderr.splitlines()

    lines = shop.json("show", job_id)["error"]["traceback"].splitlines()

    assert lines[0] == "Traceback (most recent call last):"
    assert "shop.py" in lines[1]
    assert lines[-1] == "ValueError: no card"
    begins = logged.index(lines[0])
    assert "failed: ValueError: no card" in logged[begins - 1]
    assert logged[begins : begins + len(lines)] == lines


def test_a_job_that_was_not_tried_yet_is_logged_without_an_attempt(shop: Any) -> None:
    answer = chain(shop, shop.module.Note("a"), shop.module.Note("b"))

    log = shop.flask("work", "--once").stderr

    (dispatched,) = [line for line in log.splitlines() if line.endswith("dispatched")]
    assert "shop.note (queue default) dispatched" in dispatched
    assert f"[job:{answer.id}] shop.note (queue default, attempt 1) processed" in log
