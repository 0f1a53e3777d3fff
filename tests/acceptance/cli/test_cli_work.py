from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from flask_jobs import ConnectionLost, restarts

JSON_LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"named": {"name": ""}},
    "formatters": {"json": {"format": '{"line": "%(message)s", "logger": "%(name)s", "job": "%(job_id)s"}'}},
    "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "json", "filters": ["named"]}},
    "loggers": {"app.x": {"level": "ERROR"}},
    "root": {"level": "WARNING", "handlers": ["out"]},
}


def wait_until(condition: Callable[[], object], *, limit: float = 20) -> None:
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def wait_for_line(process: subprocess.Popen[str], part: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if part in line:
            return
    raise AssertionError(f"{part!r} was never said")


def test_a_worker_runs_what_waits_and_says_so_on_stderr(shop: Any) -> None:
    job_id = shop.dispatch(shop.module.Note("hello"))

    result = shop.flask("work", "--stop-when-empty")

    assert (result.returncode, result.stdout, shop.notes) == (0, "", ["hello"])
    first, *lines = result.stderr.splitlines()
    assert first.startswith("Worker (pid ")
    assert first.endswith(") on connection database, queues default.")
    assert any(
        f"INFO    worker-1 [job:{job_id}] shop.note (queue default, attempt 1) processed" in line for line in lines
    )
    assert not any("secret" in line for line in lines)


def test_a_worker_with_once_looks_once(shop: Any) -> None:
    shop.dispatch(shop.module.Note("first"))
    shop.dispatch(shop.module.Note("second"))

    assert shop.flask("work", "--once").returncode == 0
    assert shop.notes == ["first"]


def test_a_worker_ends_after_so_many_jobs(shop: Any) -> None:
    for number in range(3):
        shop.dispatch(shop.module.Note(str(number)))

    assert shop.flask("work", "--max-jobs", "2").returncode == 0
    assert shop.notes == ["0", "1"]


def test_a_worker_ends_after_so_long(shop: Any) -> None:
    began = time.monotonic()

    result = shop.flask("work", "--max-time", "3", "--sleep", "0.1")
    assert result.returncode == 0
    assert time.monotonic() - began > 3
    assert re.findall("worker stops on database: (.*)", result.stderr) in (["its time is up"], [])


def test_the_first_queue_comes_first(shop: Any) -> None:
    for queue in ("low", "high", "other"):
        shop.dispatch(shop.module.Note(queue), queue=queue)

    shop.flask("work", "--stop-when-empty", "--queue", "high,low")

    assert shop.notes == ["high", "low"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_worker_leaves_at_once_when_it_is_told_to(shop: Any, number: signal.Signals) -> None:
    with shop.running("work", "--sleep", "60") as worker:
        wait_for_line(worker, "worker started")
        told = time.monotonic()
        worker.send_signal(number)
        wait_for_line(worker, "worker stops on database: it was told to stop")
        took = time.monotonic() - told

        assert worker.wait(20) == 0
        assert took < 1


def test_a_busy_worker_finishes_its_job_first(shop: Any) -> None:
    shop.dispatch(shop.module.Sleep(0.5))
    with shop.running("work") as worker:
        wait_until(lambda: shop.notes == ["asleep"])
        worker.send_signal(signal.SIGTERM)

        assert worker.wait(20) == 0
    assert shop.json("list")["jobs"] == []


def test_a_second_signal_cuts_the_job_short_and_the_exit_is_not_clean(shop: Any) -> None:
    job_id = shop.dispatch(shop.module.Sleep(60))
    with shop.running("work") as worker:
        wait_until(lambda: shop.notes == ["asleep"])
        # Two different ones, because two of one kind may arrive as one.
        worker.send_signal(signal.SIGTERM)
        worker.send_signal(signal.SIGINT)

        assert worker.wait(20) == 1
    (job,) = shop.json("list")["jobs"]
    assert (job["id"], job["state"], job["attempts"], job["interruptions"]) == (job_id, "ready", 0, 1)


def test_the_options_stand_in_for_jobs_that_set_none(shop: Any) -> None:
    shop.dispatch(shop.module.Boom("no"))
    shop.dispatch(shop.module.Sleep(60))

    shop.flask("work", "--stop-when-empty", "--tries", "2", "--backoff", "0,0", "--timeout", "0.2")

    assert sorted(shop.notes) == ["asleep", "asleep", "boom", "boom"]
    assert [job["attempts"] for job in shop.json("failed")["failed"]] == [2, 2]


def test_every_event_is_a_line_of_json_on_stdout(shop: Any) -> None:
    job_id = shop.dispatch(shop.module.Boom("no card"))

    result = shop.flask("work", "--stop-when-empty", "--tries", "1", "--name", "w1", "--json")

    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["event"] for event in events] == [
        "worker-started",
        "job-processing",
        "job-failed",
        "worker-idle",
        "worker-stopping",
    ]
    assert {event["worker"] for event in events} == {"w1"}
    failed = events[2]
    assert failed.pop("at").endswith("Z")
    assert failed.pop("pid") > 0
    assert failed == {
        "event": "job-failed",
        "worker": "w1",
        "job_id": job_id,
        "job_name": "shop.boom",
        "queue": "default",
        "attempt": 1,
        "connection": "database",
        "error": "ValueError: no card",
    }


def test_the_name_of_a_worker_stands_in_its_lines(shop: Any) -> None:
    result = shop.flask("work", "--stop-when-empty", "--name", "100% w1")

    assert result.stderr.startswith("Worker '100% w1' (pid ")
    assert "INFO    100% w1 worker started on database" in result.stderr


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([], {"worker-1"}),
        (["--in-process"], {"worker"}),
        (["--processes", "2"], {"worker-1", "worker-2"}),
        (["--processes", "2", "--name", "w"], {"w-1", "w-2"}),
    ],
)
def test_a_worker_that_was_given_no_name_has_one(shop: Any, options: list[str], names: set[str]) -> None:
    with shop.running("work", "--max-time", "60", "--json", *options) as process:
        told: list[str] = []
        while len(set(told)) < len(names):
            told.append(json.loads(process.stdout.readline())["worker"])
        process.send_signal(signal.SIGTERM)
        lines = process.stderr.read().splitlines()

    assert set(told) == {line.split()[2] for line in lines if "worker started on" in line} == names


def test_what_an_error_says_cannot_steer_the_terminal_of_a_worker(shop: Any) -> None:
    shop.dispatch(shop.module.Boom())

    result = shop.flask("work", "--stop-when-empty", "--tries", "1")

    assert "nothing but \\x1b[31mred" in result.stderr
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize("verbose", [[], ["-v"]])
def test_f47_a_worker_leaves_the_logging_of_an_app_alone(shop: Any, verbose: list[str]) -> None:
    failing = shop.dispatch(shop.module.Boom("no"))
    shop.dispatch(shop.module.loggers())
    shop.environment["SHOP_LOGGING"] = json.dumps(JSON_LOGGING)

    result = shop.flask("work", "--stop-when-empty", "--tries", "1", *verbose)

    before, _, _, within = shop.notes  # the app is made by the supervisor, and by its worker
    assert json.loads(within) == json.loads(before)
    assert '"flask_jobs.lifecycle"' in result.stderr
    assert f'"job": "{failing}"' in result.stderr
    assert "INFO" not in result.stderr
    assert "processed" not in result.stderr


@pytest.mark.parametrize(("verbose", "running"), [([], 0), (["--verbose"], 1)])
def test_f47_without_any_logging_the_lines_are_readable_on_stderr(shop: Any, verbose: list[str], running: int) -> None:
    shop.dispatch(shop.module.loggers())

    result = shop.flask("work", "--stop-when-empty", *verbose)

    within = json.loads(shop.notes[0])
    assert within[""][0] == []
    assert within["flask_jobs"][0] == ["StreamHandler"]
    assert within["flask_jobs.lifecycle"][0] == []
    assert result.stderr.count(") running") == running
    assert result.stderr.count(") processed") == 1


def test_a_level_that_the_app_has_set_is_kept(shop: Any) -> None:
    shop.dispatch(shop.module.Note("x"))
    shop.environment["SHOP_LOGGING"] = json.dumps({"version": 1, "loggers": {"flask_jobs": {"level": "ERROR"}}})

    result = shop.flask("work", "--stop-when-empty", "-v")

    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "config", "message"),
    [
        (["--connection", "sync"], {}, "The connection 'sync' runs each job where it is dispatched"),
        ([], {"SECRET_KEY": None}, "the app has no SECRET_KEY"),
        (
            ["--timeout", "90"],
            {"JOBS_CONNECTIONS": {"database": {"renew": False}}},
            "--timeout has timeout 90 s, which is not below retry_after 90 s, and renew is off",
        ),
        (
            ["--timeout", "0"],
            {"JOBS_CONNECTIONS": {"database": {"renew": False}}},
            "--timeout has no timeout, which is not below retry_after 90 s, and renew is off",
        ),
        (
            ["--timeout", "5"],
            {"JOBS_CONNECTIONS": {"database": {"renew": False, "retry_after": 20}}},
            "shop.slow has timeout 30 s, which is not below retry_after 20 s, and renew is off",
        ),
    ],
)
def test_a_worker_that_cannot_work_does_not_start(
    shop: Any, options: list[str], config: dict[str, Any], message: str
) -> None:
    shop.config.update(config)

    result = shop.invoke("work", "--once", *options)

    assert result.exit_code == 1
    assert message in result.stderr
    assert "pid" not in result.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--tries", "-1"],
        ["--timeout", "inf"],
        ["--backoff", "1,x"],
        ["--max-jobs", "few"],
        ["--sleep", "-1"],
        ["--nonsense"],
    ],
)
def test_an_option_that_cannot_be_used_ends_with_2(shop: Any, options: list[str]) -> None:
    assert shop.invoke("work", "--once", *options).exit_code == 2


def test_a_worker_does_not_end_because_nobody_can_say_whether_to_restart(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([0, ConnectionLost("away")])

    def asked(store: object) -> int:
        answer = next(answers, 0)
        if isinstance(answer, ConnectionLost):
            raise answer
        return answer

    monkeypatch.setattr(restarts, "asked", asked)
    shop.dispatch(shop.module.Note("hello"))

    assert shop.invoke("work", "--stop-when-empty", "--in-process").exit_code == 0
    assert shop.notes == ["hello"]
