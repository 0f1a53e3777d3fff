from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from flask_jobs import options
from flask_jobs.envelope import After, At
from flask_jobs.errors import InvalidArgument
from flask_jobs.job import Job
from flask_jobs.options import JobOptions, Resolver, WorkerDefaults, resolve

PLAIN = WorkerDefaults()


class Plain(Job):
    def handle(self) -> None: ...


class Careful(Plain):
    max_attempts = 7
    max_exceptions = 2
    max_releases = 4
    max_interruptions = 1
    timeout = 5
    fail_on_timeout = True
    backoff = (1, 2)


def job_with(**members: Any) -> type[Job]:
    return type("Invoice", (Plain,), members)


def test_a_job_that_sets_nothing_has_the_documented_options():
    assert resolve(Plain(), PLAIN) == JobOptions(
        max_attempts=3,
        sets_attempts=False,
        max_exceptions=None,
        max_releases=None,
        max_interruptions=20,
        timeout=60.0,
        fail_on_timeout=False,
        backoff=None,
    )


def test_a_job_keeps_what_its_class_sets_whatever_the_worker_says():
    got = resolve(Careful(), WorkerDefaults(tries=1, timeout=1, backoff=99))

    assert got == JobOptions(7, True, 2, 4, 1, 5.0, True, (1.0, 2.0))


def test_what_the_worker_says_stands_in_for_what_a_job_does_not_set():
    got = resolve(Plain(), WorkerDefaults(tries=9, timeout=8, backoff=(3, 4)))

    assert (got.max_attempts, got.timeout, got.backoff) == (9, 8.0, (3.0, 4.0))


def test_an_option_set_on_the_instance_wins_over_the_class():
    job = Careful()
    job.max_attempts = 1
    job.backoff = 30

    got = resolve(job, PLAIN)

    assert (got.max_attempts, got.backoff) == (1, (30.0,))


def test_an_instance_may_set_the_very_value_of_the_default():
    resolver, defaults = Resolver(), WorkerDefaults(tries=9)
    resolver(Plain(), defaults)
    job = Plain()
    job.max_attempts = 3

    assert resolver(job, defaults).max_attempts == 3


def test_a_slotted_dataclass_sets_options_as_fields():
    @dataclass(slots=True)
    class Slotted(Job):
        order: int
        max_attempts: int = 5

        def handle(self) -> None: ...

    options.check(Slotted)

    assert resolve(Slotted(1, max_attempts=2), PLAIN).max_attempts == 2


@pytest.mark.parametrize("timeout", [0, None])
def test_a_worker_without_a_timeout_means_no_limit(timeout: float | None):
    assert resolve(Plain(), WorkerDefaults(timeout=timeout)).timeout == 0


def test_a_job_may_have_no_timeout_although_the_worker_has_one():
    assert resolve(job_with(timeout=0)(), PLAIN).timeout == 0


def test_a_job_that_cannot_be_rebuilt_has_the_defaults():
    got = resolve(None, WorkerDefaults(tries=2, timeout=9, backoff=5))

    assert got == JobOptions(max_attempts=2, timeout=9.0, backoff=(5.0,))


def test_a_timedelta_is_seconds():
    job = job_with(timeout=dt.timedelta(minutes=2), backoff=[dt.timedelta(seconds=3), 4])()

    got = resolve(job, PLAIN)

    assert (got.timeout, got.backoff) == (120.0, (3.0, 4.0))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_attempts", -1),
        ("max_attempts", 2.5),
        ("max_attempts", None),
        ("max_attempts", True),
        ("max_exceptions", 0),
        ("max_exceptions", "3"),
        ("max_releases", -1),
        ("max_interruptions", float("nan")),
        ("timeout", -1),
        ("timeout", float("inf")),
        ("timeout", "60"),
        ("fail_on_timeout", "no"),
        ("prefetch", 0),
        ("prefetch", 2),
        ("prefetch", True),
        ("backoff", -5),
        ("backoff", float("nan")),
        ("backoff", "30"),
        ("backoff", []),
        ("backoff", [1, "2"]),
        ("retry_until", dt.datetime(2030, 1, 1)),
        ("retry_until", dt.timedelta(seconds=-1)),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_job_and_option(option: str, value: object):
    cls = job_with(**{option: value})

    with pytest.raises(InvalidArgument, match=rf"^Invoice\.{option}\b"):
        options.check(cls)
    with pytest.raises(InvalidArgument, match=rf"^Invoice\.{option}\b"):
        options.check(cls())


@pytest.mark.parametrize("cls", [Plain, Careful])
def test_good_options_pass_the_check(cls: type[Job]):
    options.check(cls)
    options.check(cls())


def test_a_property_is_checked_on_instances_only():
    class Patient(Plain):
        @property
        def timeout(self) -> float:  # type: ignore[override]
            return -1

    options.check(Patient)

    with pytest.raises(InvalidArgument, match=r"^Patient\.timeout"):
        options.check(Patient())


def in_an_hour(self: Job) -> dt.timedelta:
    return dt.timedelta(hours=1)


@pytest.mark.parametrize(
    ("retry_until", "expected"),
    [
        (None, None),
        (dt.timedelta(hours=1), After(3600.0)),
        (in_an_hour, After(3600.0)),
        (dt.datetime(2030, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2))), At(1893456000.0)),
    ],
)
def test_the_deadline_is_fixed_from_what_the_job_says(retry_until: object, expected: object):
    assert options.deadline(job_with(retry_until=retry_until)()) == expected


def test_a_method_that_returns_a_naive_deadline_is_refused():
    cls = job_with(retry_until=lambda self: dt.datetime(2030, 1, 1))

    with pytest.raises(InvalidArgument, match=r"^Invoice\.retry_until is a datetime without a time zone"):
        options.deadline(cls())


def test_a_backoff_method_is_asked_with_the_attempt():
    class Growing(Plain):
        step = 10

        def backoff(self, attempt: int) -> float:  # type: ignore[override]
            return self.step * attempt

    assert resolve(Growing(), PLAIN).pinned(3).backoff == (30.0,)


@pytest.mark.parametrize("answer", [lambda self, n: 1 / 0, lambda self, n: "soon", lambda self, n: -1, lambda self: 1])
def test_a_backoff_method_that_gives_no_seconds_is_logged_and_the_default_taken(
    answer: Callable[..., object], caplog: pytest.LogCaptureFixture
):
    got = resolve(job_with(backoff=answer)(), PLAIN).pinned(1)

    assert got.backoff is None
    assert "gave no pause" in caplog.text


def test_a_change_of_the_class_is_seen_although_options_are_remembered(monkeypatch: pytest.MonkeyPatch):
    resolver = Resolver()
    before = resolver(Careful(), PLAIN)
    monkeypatch.setattr(Careful, "max_attempts", 1)

    after = resolver(Careful(), PLAIN)

    assert (before.max_attempts, after.max_attempts) == (7, 1)


def test_options_are_remembered_for_each_set_of_defaults():
    resolver = Resolver()

    got = [resolver(Plain(), WorkerDefaults(tries=tries)).max_attempts for tries in (1, 2, 1)]

    assert got == [1, 2, 1]


def test_two_jobs_of_one_class_with_a_backoff_method_ask_their_own():
    class Own(Plain):
        def __init__(self, wait: float) -> None:
            self.wait = wait

        def backoff(self, attempt: int) -> float:  # type: ignore[override]
            return self.wait

    resolver = Resolver()

    got = [resolver(Own(wait), PLAIN).pinned(1).backoff for wait in (1, 2)]

    assert got == [(1.0,), (2.0,)]
