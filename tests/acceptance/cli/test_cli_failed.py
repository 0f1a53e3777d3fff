from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import sqlite3
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

UNKNOWN = "01890000-0000-7000-8000-000000000000"


def failed_ids(shop: Any) -> list[str]:
    return [job["id"] for job in reversed(shop.json("failed", "--limit", "10000")["failed"])]


def waiting(shop: Any) -> list[dict[str, Any]]:
    return list(shop.json("list", "--limit", "10000")["jobs"])


def on_terminal(shop: Any, answer: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with a terminal as its stdin, on which the answer is typed."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        result: subprocess.CompletedProcess[str] = shop.flask(*arguments, stdin=theirs)
        return result
    finally:
        os.close(ours)
        os.close(theirs)


def test_ctrl_c_at_a_question_is_an_interruption_and_destroys_nothing(shop: Any) -> None:
    ids = shop.fail(1)
    ours, theirs = pty.openpty()
    try:
        with shop.running("flush", stdin=theirs) as process:
            said = ""
            while "Go on?" not in said:
                said += process.stderr.read(1)
            # Between the question and the reading of its answer Python only takes note of a signal.
            for _ in range(4):
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(5)
                    break
            assert process.returncode == 130
    finally:
        os.close(ours)
        os.close(theirs)

    assert failed_ids(shop) == ids


def opening(process: subprocess.Popen[str]) -> str:
    """What a document begins with, up to its first item: by then the first portion is done."""
    assert process.stdout is not None
    return "".join(process.stdout.readline() for _ in range(3))


def test_failed_lists_the_newest_first_in_pages(shop: Any) -> None:
    ids = shop.fail(45)

    first = shop.json("failed", "--limit", "30")["failed"]
    rest = shop.json("failed", "--before", str(first[-1]["position"]))["failed"]

    assert [job["id"] for job in first + rest] == ids[::-1]
    assert (
        shop.invoke("failed", "--limit", "30").stdout.splitlines()[-1]
        == f"For more: --before {ids and first[-1]['position']}"
    )


def test_failed_shows_only_the_queue_and_name_that_are_asked_for(shop: Any) -> None:
    mail = shop.fail(2, queue="mail")
    shop.fail(1)

    assert [job["id"] for job in shop.json("failed", "--queue", "mail")["failed"]] == mail[::-1]
    assert len(shop.json("failed", "--name", "shop.note")["failed"]) == 3
    assert shop.json("failed", "--name", "shop.boom")["failed"] == []


def test_a_listed_failed_job_has_stable_keys(shop: Any) -> None:
    (job_id,) = shop.fail(1, error="broken")

    (job,) = shop.json("failed")["failed"]

    assert job.pop("failed_at") >= job.pop("pushed_at")
    assert job == {
        "id": job_id,
        "name": "shop.note",
        "queue": "default",
        "state": "failed",
        "attempts": 1,
        "errors": 1,
        "releases": 0,
        "interruptions": 0,
        "position": job["position"],
        "retried_from": None,
        "hook": "pending",
        "error": {"type": "builtins.ValueError", "message": "broken"},
    }


def test_retry_gives_a_new_id_that_names_the_old_one(shop: Any) -> None:
    old, other = shop.fail(2)

    (pair,) = shop.json("retry", old)["retried"]

    (job,) = waiting(shop)
    assert pair == {"id": old, "new_id": job["id"]}
    assert (job["retried_from"], job["attempts"], job["state"]) == (old, 0, "ready")
    assert failed_ids(shop) == [other]


def test_a_job_that_was_retried_already_is_named_by_its_new_id(shop: Any) -> None:
    (old,) = shop.fail(1)
    (pair,) = shop.json("retry", old)["retried"]

    again = shop.invoke("retry", old)

    assert again.exit_code == 1
    assert again.stderr == (
        f"Error: No failed job has the id '{old}' on connection 'database': "
        f"it had failed and was retried as {pair['new_id']}.\n"
    )


def test_a_retried_job_runs(shop: Any) -> None:
    (old,) = shop.fail(1, text="at last")

    said = shop.flask("retry", old).stdout
    shop.flask("work", "--stop-when-empty")

    assert said.splitlines()[0].startswith(f"{old} -> ")
    assert shop.notes == ["at last"]


@pytest.mark.parametrize("unknown", [UNKNOWN, "nonsense"])
def test_retry_does_the_rest_beside_an_unknown_id(shop: Any, unknown: str) -> None:
    first, second = shop.fail(2)

    document = shop.json("retry", first, unknown, second, exit_code=1)

    assert [pair["id"] for pair in document["retried"]] == [first, second]
    assert (document["unknown"], document["interrupted"]) == ([unknown], False)
    assert failed_ids(shop) == []
    assert f"No failed job has the id '{unknown}'" in shop.invoke("retry", unknown).stderr


@pytest.mark.parametrize(
    ("arguments", "queues"),
    [
        (["all"], ["default", "mail"]),
        (["--queue", "mail"], ["mail"]),
        (["all", "--queue", "mail", "--name", "shop.note"], ["mail"]),
        (["--name", "shop.boom"], []),
    ],
)
def test_retry_takes_all_of_a_queue_or_name(shop: Any, arguments: list[str], queues: list[str]) -> None:
    shop.fail(1)
    shop.fail(1, queue="mail")

    shop.invoke("retry", *arguments)

    assert [job["queue"] for job in waiting(shop)] == queues


@pytest.mark.parametrize(
    "arguments", [[], ["all", UNKNOWN], [UNKNOWN, "--queue", "mail"], ["--queue", "a:b"], [UNKNOWN, "--name", "x"]]
)
def test_retry_refuses_what_is_not_clear(shop: Any, arguments: list[str]) -> None:
    shop.fail(1)

    assert shop.invoke("retry", *arguments).exit_code == 2
    assert waiting(shop) == []


def test_f41_a_retry_of_all_that_is_interrupted_goes_on_with_the_rest(shop: Any) -> None:
    ids = shop.fail(2_500)

    # A pipe holds fewer lines than a portion has, so the command is within its first portion when the signal comes.
    with shop.running("retry", "all") as process:
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        lines = [first, *process.stdout]
        assert process.wait(20) == 130
    second = shop.json("retry", "all")

    begun = [line.split(" -> ")[0] for line in lines[:-1]]
    assert lines[-1] == "1,000 retried.\n"
    assert begun + [pair["id"] for pair in second["retried"]] == ids
    assert sorted(job["retried_from"] for job in waiting(shop)) == sorted(ids)
    assert failed_ids(shop) == []


def test_f41_a_retry_of_all_leaves_alone_what_fails_meanwhile(shop: Any) -> None:
    shop.fail(1_500)

    with shop.running("retry", "all", "--json") as process:
        opening(process)
        (late,) = shop.fail(1, queue="late")
        process.stdout.read()
        progress = process.stderr.read()
        assert process.wait(20) == 0

    assert failed_ids(shop) == [late]
    assert progress == "1,000 of 1,500 failed jobs retried …\n"


def test_an_interrupted_retry_still_prints_a_whole_document(shop: Any) -> None:
    shop.fail(1_500)

    with shop.running("retry", "all", "--json") as process:
        first = opening(process)
        process.send_signal(signal.SIGINT)
        document = json.loads(first + process.stdout.read())
        assert process.wait(20) == 130

    assert len(document["retried"]) == 1_000
    assert document["interrupted"] is True


def test_a_document_is_whole_even_if_the_store_fails_half_way(shop: Any) -> None:
    (first,) = shop.fail(1)
    (other,) = shop.fail(1)
    with sqlite3.connect(shop.folder / "shop.sqlite") as connection:
        connection.execute(
            f"CREATE TRIGGER full BEFORE DELETE ON flask_jobs_failed WHEN old.id = '{other}' "
            "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    connection.close()

    result = shop.invoke("retry", first, other, "--json")

    assert result.exit_code == 1
    assert [pair["id"] for pair in json.loads(result.stdout)["retried"]] == [first]
    assert failed_ids(shop) == [other]


def test_a_retry_of_all_that_matches_says_if_nothing_does(shop: Any) -> None:
    shop.fail(1)

    for options in (["--name", "nosuch"], ["all", "--queue", "nosuch"]):
        result = shop.invoke("retry", *options)

        assert (result.exit_code, result.output) == (0, "No failed job matches.\n")


def test_what_is_asked_is_asked_of_the_jobs_that_are_there(shop: Any) -> None:
    (failed,), waiting_one = shop.fail(1), shop.dispatch(shop.module.Note("x"))

    forget, cancel = shop.invoke("forget", UNKNOWN, failed), shop.invoke("cancel", UNKNOWN, waiting_one)

    assert "This would delete 1 failed job from" in forget.stderr
    assert "This would delete 1 waiting job from" in cancel.stderr


def test_forget_deletes_and_does_the_rest_beside_an_unknown_id(shop: Any) -> None:
    first, second, third = shop.fail(3)

    document = shop.json("forget", first, UNKNOWN, "nonsense", third, "--force", exit_code=1)

    assert document == {"connection": "database", "forgotten": [first, third], "unknown": [UNKNOWN, "nonsense"]}
    assert failed_ids(shop) == [second]


def test_flush_deletes_all_failed_jobs(shop: Any) -> None:
    shop.fail(3)
    shop.fail(1, queue="mail")

    assert shop.json("flush", "--queue", "mail", "--force")["flushed"] == 1
    assert shop.json("flush", "--force") == {"connection": "database", "flushed": 3, "interrupted": False}
    assert failed_ids(shop) == []


@pytest.mark.parametrize("option", [["--hours", "1"], ["--older-than", "3600"]])
def test_flush_spares_what_has_failed_of_late(shop: Any, option: list[str]) -> None:
    ids = shop.fail(2)

    assert shop.json("flush", *option, "--force")["flushed"] == 0
    assert failed_ids(shop) == ids


def test_flush_deletes_in_portions_and_tells_how_far_it_is(shop: Any) -> None:
    shop.fail(1_200)

    result = shop.invoke("flush", "--force")

    assert result.stdout == "1,200 failed jobs deleted.\n"
    assert result.stderr == "1,000 failed jobs deleted …\n"


@pytest.mark.parametrize("options", [["--hours", "1", "--older-than", "1"], ["--hours", "-1"], ["--hours", "nan"]])
def test_flush_refuses_a_time_that_is_none(shop: Any, options: list[str]) -> None:
    assert shop.invoke("flush", "--force", *options).exit_code == 2


DESTROYING: Sequence[Sequence[str]] = [["flush"], ["forget", "{failed}"], ["clear"], ["cancel", "{waiting}"]]


def prepared(shop: Any, command: Sequence[str]) -> list[str]:
    (failed,) = shop.fail(1)
    job_id = shop.dispatch(shop.module.Note("x"))
    return [part.format(failed=failed, waiting=job_id) for part in command]


@pytest.mark.parametrize("command", DESTROYING)
def test_what_destroys_refuses_where_there_is_no_terminal(shop: Any, command: Sequence[str]) -> None:
    result = shop.invoke(*prepared(shop, command))

    assert (result.exit_code, result.stdout) == (1, "")
    assert "There is no terminal to ask on: say --force if that is meant." in result.stderr
    assert (len(failed_ids(shop)), len(waiting(shop))) == (1, 1)


@pytest.mark.parametrize("command", DESTROYING)
def test_what_destroys_asks_on_a_terminal_and_takes_no_for_an_answer(shop: Any, command: Sequence[str]) -> None:
    result = on_terminal(shop, "n", *prepared(shop, command))

    assert (result.returncode, result.stdout) == (1, "")
    assert "Go on? [y/N]" in result.stderr
    assert (len(failed_ids(shop)), len(waiting(shop))) == (1, 1)


def test_what_destroys_goes_on_after_yes_and_keeps_stdout_for_its_answer(shop: Any) -> None:
    result = on_terminal(shop, "y", *prepared(shop, ["clear"]), "--json")

    assert result.returncode == 0
    assert json.loads(result.stdout)["cleared"] == 1
    assert (len(failed_ids(shop)), waiting(shop)) == (1, [])
