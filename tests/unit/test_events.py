from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Any

import pytest
from blinker import NamedSignal
from werkzeug.local import LocalProxy

from flask_jobs import events
from flask_jobs.control import JobTimeout
from flask_jobs.envelope import Reclaimed
from flask_jobs.events import Events, WorkerEvents
from flask_jobs.job import Job

from .support.app import job
from .support.values import envelope, reservation

LIFECYCLE = "flask_jobs.lifecycle"
HELD = reservation(attempts=2)
BOOM = ValueError("boom")


class App:
    pass


def heard(signal: NamedSignal, sender: object, tell: Callable[[], None]) -> list[dict[str, Any]]:
    """What the receivers of the signal are given while `tell` runs."""
    received: list[dict[str, Any]] = []

    def receive(sender: object, **facts: Any) -> None:
        received.append(facts)

    with signal.connected_to(receive, sender=sender):
        tell()
    return received


MADE = job(lambda self: None)
FACTS = {"job_id": "0190", "job_name": "demo", "queue": "default", "connection": "main"}
TRANSITIONS = [
    (events.job_dispatched, lambda e: e.dispatched(envelope(), delay=5), 0, {"delay": 5}, "INFO"),
    (events.job_processing, lambda e: e.processing(HELD, job=MADE), 2, {"job": MADE}, "DEBUG"),
    (
        events.job_processed,
        lambda e: e.processed(HELD, job=MADE, seconds=0.5),
        2,
        {"job": MADE, "seconds": 0.5, "reason": None},
        "INFO",
    ),
    (
        events.job_released,
        lambda e: e.released(HELD, job=MADE, delay=5, reason="full"),
        2,
        {"job": MADE, "delay": 5, "reason": "full", "error": None},
        "INFO",
    ),
    (
        events.job_released,
        lambda e: e.released(HELD, job=None, delay=5, reason="unknown", is_expected=False),
        2,
        {"job": None, "delay": 5, "reason": "unknown", "error": None},
        "WARNING",
    ),
    (events.job_failed, lambda e: e.failed(HELD, job=MADE, error=BOOM), 2, {"job": MADE, "error": BOOM}, "ERROR"),
    (
        events.job_timed_out,
        lambda e: e.timed_out(HELD, job=MADE, seconds=9, error=BOOM),
        2,
        {"job": MADE, "seconds": 9, "error": BOOM},
        "WARNING",
    ),
    (
        events.job_interrupted,
        lambda e: e.interrupted(HELD, job=MADE, reason="stop"),
        2,
        {"job": MADE, "reason": "stop"},
        "INFO",
    ),
    (
        events.settlement_lost,
        lambda e: e.settlement_lost(HELD, job=MADE, reason="late"),
        2,
        {"job": MADE, "reason": "late"},
        "WARNING",
    ),
    (
        events.settlement_lost,
        lambda e: e.settlement_lost(HELD, job=MADE, reason="away", known=False),
        2,
        {"job": MADE, "reason": "away"},
        "ERROR",
    ),
    (
        events.lease_expired,
        lambda e: e.lease_expired(Reclaimed(envelope(), 3, charged=True)),
        3,
        {"charged": True},
        "WARNING",
    ),
]


@pytest.fixture(autouse=True)
def no_listeners() -> None:
    """Those of other tests listen as long as their `Jobs` objects live, which may have to be collected first."""
    gc.collect()


@pytest.mark.parametrize(("signal", "tell", "attempt", "specifics", "level"), TRANSITIONS)
def test_every_transition_is_a_signal_and_one_line(
    signal: NamedSignal,
    tell: Callable[[Events], None],
    attempt: int,
    specifics: dict[str, Any],
    level: str,
    caplog: pytest.LogCaptureFixture,
):
    app = App()
    caplog.set_level(logging.DEBUG, LIFECYCLE)

    received = heard(signal, app, lambda: tell(Events(app, "main")))

    assert received == [FACTS | {"attempt": attempt} | specifics]
    (record,) = caplog.records
    assert (record.name, record.levelname) == (LIFECYCLE, level)
    place = f"queue default, attempt {attempt}" if attempt else "queue default"
    assert record.getMessage().startswith(f"[job:0190] demo ({place}) ")
    assert "\n" not in record.getMessage()
    assert {name: vars(record)[name] for name in FACTS} == FACTS
    assert vars(record)["attempt"] == attempt


def test_jobs_discarded_together_are_one_line_and_a_signal_each(caplog: pytest.LogCaptureFixture):
    app = App()

    received = heard(
        events.job_discarded, app, lambda: Events(app, "main").discarded([envelope(), envelope()], reason="rolled back")
    )

    assert received == [FACTS | {"attempt": 0, "reason": "rolled back"}] * 2
    (record,) = caplog.records
    assert record.getMessage() == "discarded, because rolled back: demo 0190, demo 0190"


def test_the_names_of_the_signals_are_kebab_case():
    named = {name: value for name, value in vars(events).items() if isinstance(value, NamedSignal)}

    assert len(named) == 15
    assert all(signal.name == name.replace("_", "-") for name, signal in named.items())


def test_a_failure_carries_its_traceback_to_the_log(caplog: pytest.LogCaptureFixture):
    Events(App()).failed(HELD, job=None, error=BOOM)

    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[1] is BOOM


def test_only_receivers_of_this_app_are_called():
    app, other = App(), App()

    assert heard(events.job_dispatched, other, lambda: Events(app).dispatched(envelope())) == []


def test_the_sender_is_the_app_itself_also_when_a_proxy_is_given():
    app = App()
    senders: list[object] = []

    def receive(sender: object, **facts: object) -> None:
        senders.append(sender)

    with events.job_dispatched.connected_to(receive, sender=app):
        Events(LocalProxy(lambda: app)).dispatched(envelope())

    assert type(senders[0]) is App


@pytest.mark.parametrize("error", [RuntimeError("bad receiver"), SystemExit(1)])
def test_a_raising_receiver_is_logged_and_the_others_are_called(error: BaseException, caplog: pytest.LogCaptureFixture):
    app = App()
    called: list[str] = []

    def bad(sender: object, **facts: object) -> None:
        called.append("bad")
        raise error

    def also_bad(sender: object, **facts: object) -> None:
        called.append("also bad")
        raise error

    with events.job_failed.connected_to(bad, sender=app), events.job_failed.connected_to(also_bad, sender=app):
        Events(app).failed(HELD, job=None, error=BOOM)

    assert sorted(called) == ["also bad", "bad"]
    records = [record for record in caplog.records if record.name == "flask_jobs.events"]
    frames = [record.exc_info[2] for record in records if record.exc_info is not None]
    assert [frame.tb_frame.f_code.co_filename for frame in frames if frame is not None] == [__file__] * 2
    assert [record.getMessage() for record in records] == ["A receiver of job-failed raised."] * 2


def test_a_receiver_that_is_a_coroutine_function_is_reported(caplog: pytest.LogCaptureFixture):
    app = App()

    async def receive(sender: object, **facts: object) -> None: ...

    with events.job_dispatched.connected_to(receive, sender=app):
        Events(app).dispatched(envelope())

    assert "coroutine function" in caplog.text


def test_a_time_limit_that_strikes_within_a_receiver_is_not_lost():
    app = App()

    def receive(sender: object, **facts: object) -> None:
        raise JobTimeout

    with events.job_dispatched.connected_to(receive, sender=app), pytest.raises(JobTimeout):
        Events(app).dispatched(envelope())


def test_a_muted_signal_is_not_sent():
    app = App()

    def tell() -> None:
        with events.job_dispatched.muted():
            Events(app).dispatched(envelope())

    assert heard(events.job_dispatched, app, tell) == []


def test_a_raising_log_handler_does_not_keep_receivers_from_being_called(capsys: pytest.CaptureFixture[str]):
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("log server away")

    app, broken = App(), Broken()
    logging.getLogger(LIFECYCLE).addHandler(broken)
    try:
        received = heard(events.job_failed, app, lambda: Events(app).failed(HELD, job=None, error=BOOM))
    finally:
        logging.getLogger(LIFECYCLE).removeHandler(broken)

    assert len(received) == 1
    assert "log server away" in capsys.readouterr().err


def test_nothing_is_formatted_while_nobody_listens():
    class Loud(Job):
        def __str__(self) -> str:
            raise AssertionError("formatted")

        __repr__ = __str__

    logging.getLogger(LIFECYCLE).setLevel(logging.CRITICAL)
    try:
        Events(App()).processing(HELD, job=Loud())
    finally:
        logging.getLogger(LIFECYCLE).setLevel(logging.NOTSET)


def test_the_values_of_a_job_are_never_logged(caplog: pytest.LogCaptureFixture):
    class Secret(Job):
        def __init__(self) -> None:
            self.token = "hunter2"

        def __repr__(self) -> str:
            return self.token

    caplog.set_level(logging.DEBUG)
    told, made = Events(App()), Secret()

    told.processing(HELD, job=made)
    told.processed(HELD, job=made, seconds=1)
    told.failed(HELD, job=made, error=BOOM)
    told.released(HELD, job=made, delay=1, reason="x")

    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("signal", "tell", "facts"),
    [
        (events.worker_started, lambda e: e.started(["a"]), {"queues": ("a",)}),
        (events.worker_idle, lambda e: e.idle(["a"]), {"queues": ("a",)}),
        (
            events.worker_stopping,
            lambda e: e.stopping(["a"], reason="told"),
            {"queues": ("a",), "reason": "told"},
        ),
        (events.queue_paused, lambda e: e.paused("a", seconds=5), {"queue": "a", "seconds": 5}),
        (events.queue_resumed, lambda e: e.resumed("a"), {"queue": "a"}),
    ],
)
def test_workers_and_queues_are_told_of(
    signal: NamedSignal, tell: Callable[[WorkerEvents], None], facts: dict[str, Any]
):
    app = App()

    assert heard(signal, app, lambda: tell(WorkerEvents(app, "main"))) == [{"connection": "main"} | facts]
