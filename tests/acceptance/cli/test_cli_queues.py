from __future__ import annotations

from typing import Any

import pytest

from flask_jobs import queue_paused, queue_resumed

UNKNOWN = "01890000-0000-7000-8000-000000000000"

NO_QUEUES = ["a:b", "a b", "名前", "u\u0308ni", "\u00fcni", "x" * 81, "", "*", "{x}", "a ", "a\n"]


@pytest.mark.parametrize(
    "command",
    [
        ["list", "--queue"],
        ["failed", "--queue"],
        ["retry", "--queue"],
        ["flush", "--force", "--queue"],
        ["clear", "--force", "--queue"],
        ["clear", "--force"],
        ["dispatch", "shop.note", "--field", "text=x", "--queue"],
        ["pause"],
        ["resume"],
    ],
)
def test_f40_a_queue_name_that_dispatch_refuses_is_refused_everywhere(shop: Any, command: list[str]) -> None:
    for name in [*NO_QUEUES, "a,b"]:
        result = shop.invoke(*command, name)

        assert result.exit_code == 2
        assert "is no queue name" in result.stderr
    assert shop.json("list")["jobs"] == []


def test_f40_a_worker_refuses_them_too(shop: Any) -> None:
    for name in NO_QUEUES:
        # Beside the commas of a list, space does not count.
        if name.strip() == name:
            result = shop.invoke("work", "--once", "--queue", f"default,{name}")

            assert result.exit_code == 2
            assert "is no queue name" in result.stderr


def test_f40_names_that_differ_in_case_are_two_queues(shop: Any) -> None:
    shop.invoke("dispatch", "shop.note", "--field", "text=large", "--queue", "A.b")
    shop.invoke("dispatch", "shop.note", "--field", "text=small", "--queue", "a.b")

    assert shop.flask("work", "--stop-when-empty", "--queue", "A.b").returncode == 0
    assert shop.notes == ["large"]


def test_clear_empties_one_queue_and_spares_what_runs(shop: Any) -> None:
    running = shop.dispatch(shop.module.Note("x"))
    shop.reserve()
    shop.dispatch(shop.module.Note("x"))
    shop.dispatch(shop.module.Note("x"), delay=60)
    other = shop.dispatch(shop.module.Note("x"), queue="mail")

    document = shop.json("clear", "--force")

    assert document == {"connection": "database", "queue": "default", "cleared": 2, "interrupted": False}
    assert [job["id"] for job in shop.json("list")["jobs"]] == [running, other]


def test_one_job_is_not_called_jobs(shop: Any) -> None:
    shop.dispatch(shop.module.Note("x"))

    asked = shop.invoke("clear")
    done = shop.invoke("clear", "--force")

    assert "would delete 1 waiting job from queue 'default'" in asked.stderr
    assert done.stdout == "1 job deleted from queue default.\n"


def test_clear_goes_in_portions_and_tells_how_far_it_is(shop: Any) -> None:
    with shop.app.app_context():
        shop.module.jobs.dispatch_many([shop.module.Note("x")] * 1_200, queue="mail")

    result = shop.invoke("clear", "--queue", "mail", "--force")

    assert result.stdout == "1,200 jobs deleted from queue mail.\n"
    assert result.stderr == "1,000 jobs deleted …\n"


def test_clear_takes_the_queue_as_pause_does_and_refuses_to_be_told_twice(shop: Any) -> None:
    kept = shop.dispatch(shop.module.Note("x"))
    shop.dispatch(shop.module.Note("x"), queue="mail")

    twice = shop.invoke("clear", "mail", "--queue", "default", "--force")
    once = shop.invoke("clear", "mail", "--force")

    assert (twice.exit_code, once.stdout) == (2, "1 job deleted from queue mail.\n")
    assert [job["id"] for job in shop.json("list")["jobs"]] == [kept]


def test_there_is_no_question_where_there_is_nothing_to_delete(shop: Any) -> None:
    running = shop.dispatch(shop.module.Note("x"))
    shop.reserve()

    cleared, cancelled, forgotten = (
        shop.invoke(*words) for words in (["clear"], ["cancel", running], ["forget", running])
    )

    assert (cleared.exit_code, cleared.output) == (0, "0 jobs deleted from queue default.\n")
    assert (cancelled.exit_code, cancelled.output) == (
        1,
        f"Error: {running} is running: it cannot be cancelled any more.\n",
    )
    assert forgotten.output == f"Error: No failed job has the id '{running}' on connection 'database'.\n"
    assert forgotten.exit_code == 1


def test_cancel_removes_waiting_jobs_and_complains_of_the_rest(shop: Any) -> None:
    running = shop.dispatch(shop.module.Note("x"))
    shop.reserve()
    first = shop.dispatch(shop.module.Note("x"))
    second = shop.dispatch(shop.module.Note("x"), delay=60)

    result = shop.invoke("cancel", first, UNKNOWN, running, second, "--force")

    assert result.exit_code == 1
    assert result.stdout == f"{first} cancelled\n{second} cancelled\n"
    assert f"No waiting job has the id '{UNKNOWN}'" in result.stderr
    assert f"{running} is running: it cannot be cancelled any more." in result.stderr
    assert [job["id"] for job in shop.json("list")["jobs"]] == [running]


def test_cancel_says_in_json_what_became_of_each_id(shop: Any) -> None:
    job_id = shop.dispatch(shop.module.Note("x"))

    document = shop.json("cancel", job_id, UNKNOWN, "--force", exit_code=1)

    assert document == {"connection": "database", "cancelled": [job_id], "unknown": [UNKNOWN], "running": []}


def test_a_paused_queue_gives_out_nothing_until_it_is_resumed(shop: Any) -> None:
    shop.dispatch(shop.module.Note("x"))

    assert shop.json("pause", "default") == {
        "connection": "database",
        "queue": "default",
        "paused": True,
        "seconds": None,
    }
    shop.flask("work", "--stop-when-empty")
    assert shop.notes == []
    assert shop.json("resume", "default") == {"connection": "database", "queue": "default", "resumed": True}
    shop.flask("work", "--stop-when-empty")
    assert shop.notes == ["x"]


def test_pausing_an_empty_queue_suggests_the_one_that_may_be_meant(shop: Any) -> None:
    shop.dispatch(shop.module.Note("x"), queue="reports")

    mistyped, empty, right = (shop.invoke("pause", queue) for queue in ("report", "mail", "reports"))

    assert (mistyped.exit_code, mistyped.stderr) == (0, "It holds no jobs. Did you mean reports?\n")
    assert empty.stderr == right.stderr == ""


def test_resuming_a_queue_that_is_not_paused_says_so(shop: Any) -> None:
    result = shop.invoke("resume", "default")

    assert (result.exit_code, result.stdout) == (0, "Queue default was not paused.\n")


def test_pause_and_resume_send_their_signals(shop: Any) -> None:
    told: list[tuple[str, object]] = []

    def paused(sender: object, **facts: Any) -> None:
        told.append(("paused", (facts["queue"], facts["seconds"], facts["connection"])))

    def resumed(sender: object, **facts: Any) -> None:
        told.append(("resumed", facts["queue"]))

    with queue_paused.connected_to(paused, shop.app), queue_resumed.connected_to(resumed, shop.app):
        shop.invoke("pause", "mail", "--for", "90")
        shop.invoke("resume", "mail")
        shop.invoke("resume", "mail")

    assert told == [("paused", ("mail", 90.0, "database")), ("resumed", "mail")]


@pytest.mark.parametrize("span", ["-1", "nan", "inf", "soon"])
def test_a_pause_of_no_time_is_refused(shop: Any, span: str) -> None:
    assert shop.invoke("pause", "mail", "--for", span).exit_code == 2
