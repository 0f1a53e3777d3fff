from __future__ import annotations

import datetime as dt
import re
import signal
import socket
import tracemalloc
from typing import Any

import pytest

UNKNOWN = "01890000-0000-7000-8000-000000000000"
LONG = "x" * 300


def rows(output: str) -> list[str]:
    return output.splitlines()[2:]


def test_status_shows_each_queue_and_how_many_have_failed(shop: Any) -> None:
    shop.fail(2, queue="mail")
    for delay in (0, 0, 60):
        shop.dispatch(shop.module.Note("x"), queue="mail", delay=delay)
    shop.reserve("mail")
    shop.invoke("pause", "reports", "--for", "90")

    document = shop.json("status")

    until = dt.datetime.fromisoformat(document["queues"][2].pop("paused_until"))
    assert 80 < (until - dt.datetime.now(dt.UTC)).total_seconds() <= 90
    assert document == {
        "connection": "database",
        "driver": "database",
        "queues": [
            {"queue": "default", "ready": 0, "delayed": 0, "running": 0, "paused": False, "paused_until": None},
            {"queue": "mail", "ready": 1, "delayed": 1, "running": 1, "paused": False, "paused_until": None},
            {"queue": "reports", "ready": 0, "delayed": 0, "running": 0, "paused": True},
        ],
        "failed": 2,
    }


def test_status_is_a_table_for_people(shop: Any) -> None:
    shop.dispatch(shop.module.Note("x"))
    shop.invoke("pause", "reports")

    result = shop.invoke("status")

    assert result.exit_code == 0
    assert [row.split() for row in rows(result.stdout)] == [
        ["default", "1", "0", "0", "no"],
        ["reports", "0", "0", "0", "until", "resumed"],
        ["0", "failed."],
    ]


def test_list_shows_the_oldest_first_and_goes_on_after_an_id(shop: Any) -> None:
    ids = [shop.dispatch(shop.module.Note("x"), queue=f"queue-{number % 3}") for number in range(50)]

    first = shop.json("list", "--limit", "45")["jobs"]
    rest = shop.json("list", "--after", first[-1]["id"])["jobs"]

    assert [job["id"] for job in first + rest] == ids


def test_a_page_of_the_list_says_how_to_go_on(shop: Any) -> None:
    ids = [shop.dispatch(shop.module.Note("x")) for _ in range(3)]

    assert shop.invoke("list", "--limit", "2").stdout.splitlines()[-1] == f"For more: --after {ids[1]}"
    assert "For more" not in shop.invoke("list", "--after", ids[1]).stdout


@pytest.mark.parametrize(
    "arguments", [("list", "--limit", "9" * 30), ("failed", "--limit", "9" * 30), ("failed", "--before", "9" * 30)]
)
def test_a_number_that_no_store_can_count_to_is_refused(shop: Any, arguments: tuple[str, ...]) -> None:
    assert shop.invoke(*arguments).exit_code == 2


def test_list_shows_only_the_queue_and_state_that_are_asked_for(shop: Any) -> None:
    shop.dispatch(shop.module.Note("x"), queue="mail")
    running = shop.dispatch(shop.module.Note("x"))
    shop.reserve()
    late = shop.dispatch(shop.module.Note("x"), delay=60)

    def listed(*options: str) -> list[str]:
        return [job["id"] for job in shop.json("list", *options)["jobs"]]

    assert listed("--queue", "default") == [running, late]
    assert listed("--state", "running") == [running]
    assert listed("--state", "delayed", "--queue", "mail") == []


def test_a_listed_job_has_stable_keys_and_instants_in_utc(shop: Any) -> None:
    job_id = shop.dispatch(shop.module.Note("x"), delay=60)

    (job,) = shop.json("list")["jobs"]

    pushed, due = dt.datetime.fromisoformat(job.pop("pushed_at")), dt.datetime.fromisoformat(job.pop("due"))
    assert pushed.utcoffset() == due.utcoffset() == dt.timedelta(0)
    assert (due - pushed).total_seconds() == pytest.approx(60, abs=0.01)
    assert job == {
        "id": job_id,
        "name": "shop.note",
        "queue": "default",
        "state": "delayed",
        "attempts": 0,
        "errors": 0,
        "releases": 0,
        "interruptions": 0,
        "leased_until": None,
        "retry_until": None,
        "retried_from": None,
        "progress": None,
    }


@pytest.mark.parametrize("zone", ["America/Phoenix", "Asia/Kolkata"])
def test_f45_displayed_instants_do_not_depend_on_the_zone_of_the_host(shop: Any, zone: str) -> None:
    job_id = shop.dispatch(shop.module.Note("x"), delay=3600)
    shop.environment["TZ"] = zone

    said = shop.flask("show", job_id).stdout

    (instant,) = re.findall(r"due +(\S+Z) \(in 60 min\)", said)
    due = dt.datetime.fromisoformat(instant)
    assert 3500 < (due - dt.datetime.now(dt.UTC)).total_seconds() < 3601


def test_an_instant_beyond_all_calendars_can_be_shown(shop: Any) -> None:
    job_id = shop.dispatch(shop.module.Note("x"), delay=9_999 * 365 * 86_400)

    assert shop.json("show", job_id)["due"] == "9999-12-31T23:59:59.000Z"
    assert shop.invoke("list").exit_code == 0


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_tables_fit_the_terminal_and_never_cut_an_id(shop: Any, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    shop.fail(1, queue="q" * 80, error=LONG)
    job_id = shop.dispatch(shop.module.Note("x"), queue="r" * 80)
    monkeypatch.setenv("COLUMNS", str(columns))

    for command in (["status"], ["list"], ["failed"], ["show", job_id]):
        result = shop.invoke(*command)

        assert result.exit_code == 0
        assert max(map(len, result.stdout.splitlines())) <= columns
    assert job_id in shop.invoke("list").stdout


def test_a_table_in_a_pipe_is_not_cut_and_has_no_colour(shop: Any) -> None:
    text = "x" * 150
    shop.fail(1, error=text)
    del shop.environment["COLUMNS"]

    result = shop.flask("failed")

    assert text in result.stdout
    assert "\x1b" not in result.stdout


def test_ctrl_c_ends_a_command_that_waits_for_the_store_with_its_own_exit_code(shop: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(30)
        port = silent.getsockname()[1]
        shop.config["JOBS_CONNECTIONS"] = {"redis": {"url": f"redis://127.0.0.1:{port}/0?socket_timeout=60"}}
        with shop.running("list", "--connection", "redis") as process:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1)
                process.send_signal(signal.SIGINT)
                said = process.communicate(timeout=30)

    assert process.returncode == 130
    assert said == ("", "Interrupted.\n")


def test_what_an_error_says_cannot_steer_the_terminal(shop: Any) -> None:
    (job_id,) = shop.fail(1, error="\x1b[2J[bold]gone[/bold]\r")

    for command in (["failed"], ["show", job_id], ["explain", job_id]):
        shown = shop.invoke(*command).stdout
        assert "\\x1b[2J" in shown
        assert "\x1b" not in shown


def test_show_hides_sensitive_fields_of_waiting_and_of_failed_jobs(shop: Any) -> None:
    (failed,) = shop.fail(1, text="hello")
    waiting = shop.dispatch(shop.module.Note("hello", token="secret"))

    for job_id in (failed, waiting):
        assert shop.json("show", job_id)["fields"] == {"text": "'hello'", "token": "[hidden]"}
        said = shop.invoke("show", job_id).output
        assert "hello" in said
        assert "secret" not in said


def test_show_tells_where_a_running_job_is(shop: Any) -> None:
    job_id = shop.dispatch(shop.module.Note("x"))
    shop.reserve()

    document = shop.json("show", job_id)

    assert (document["state"], document["attempts"]) == ("running", 1)
    assert document["leased_until"] > document["pushed_at"]
    assert "running, lease ends in " in shop.invoke("show", job_id).stdout


def test_show_tells_of_a_failed_job_with_its_traceback(shop: Any) -> None:
    job_id = shop.dispatch(shop.module.Boom("no card"))
    assert shop.flask("work", "--once", "--tries", "1").returncode == 0

    document = shop.json("show", job_id)

    assert document["state"] == "failed"
    assert document["error"]["type"] == "ValueError"
    assert document["error"]["message"] == "no card"
    assert "raise ValueError(self.text)" in document["error"]["traceback"]
    assert [noted["event"] for noted in document["history"]] == ["error"]
    assert "raise ValueError(self.text)" in shop.invoke("show", job_id).stdout


def test_an_id_may_be_written_in_any_form_of_a_uuid(shop: Any) -> None:
    job_id = shop.dispatch(shop.module.Note("x"))

    assert shop.json("show", job_id.replace("-", "").upper())["id"] == job_id


def test_explain_says_why_a_job_waits(shop: Any) -> None:
    job_id = shop.dispatch(shop.module.Boom("no card"))
    assert shop.flask("work", "--once", "--backoff", "300").returncode == 0
    shop.invoke("pause", "default")

    document = shop.json("explain", job_id)

    assert document["state"] == "delayed"
    assert document["explanation"] == (
        "Attempt 1 raised an error (ValueError: no card); it waits for its next attempt and falls due in 5 min, "
        "and queue 'default' is paused until it is resumed."
    )
    assert [noted["event"] for noted in document["history"]] == ["error"]
    assert shop.invoke("explain", job_id).stdout.splitlines()[1].endswith("put off by 5 min")


@pytest.mark.parametrize("command", ["show", "explain"])
@pytest.mark.parametrize("unknown", [UNKNOWN, "nonsense"])
def test_an_unknown_id_ends_with_1_and_a_message(shop: Any, command: str, unknown: str) -> None:
    result = shop.invoke(command, unknown, "--json")

    assert (result.exit_code, result.stdout) == (1, "")
    assert f"There is no job '{unknown}' on connection 'database'" in result.stderr


@pytest.mark.parametrize("command", [["status"], ["list"], ["failed"], ["clear", "--force"], ["pause", "q"]])
def test_what_a_driver_cannot_do_is_said_with_connection_and_driver(shop: Any, command: list[str]) -> None:
    result = shop.invoke(*command, "--connection", "sync")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: The connection 'sync' (driver 'sync') cannot ")


def test_an_unknown_connection_is_a_usage_error_that_names_the_known_ones(shop: Any) -> None:
    result = shop.invoke("status", "--connection", "redis7")

    assert result.exit_code == 2
    assert "There is no connection 'redis7'; known are database, redis, sync" in result.stderr


def test_an_app_without_jobs_is_told_what_to_write(shop: Any) -> None:
    command = [part.replace("create_app", "create_bare") for part in shop.command("status")]
    shop.command = lambda *_: command

    result = shop.flask()

    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "Error: The app 'bare' has no Jobs: call jobs.init_app(app) in its factory.\n"


def test_a_list_of_large_jobs_is_read_page_by_page(shop: Any) -> None:
    shop.fail(80, text="x" * 500_000)
    shop.invoke("failed", "--limit", "1")

    tracemalloc.start()
    document = shop.json("failed", "--limit", "80")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert len(document["failed"]) == 80
    assert peak < 25_000_000
