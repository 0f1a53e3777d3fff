from __future__ import annotations

import asyncio
import contextlib
import decimal
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from flask_jobs.control import DiscardJob, FailJob, JobInterrupted, JobTimeout, ReleaseJob, current_job
from flask_jobs.envelope import Hook, Progress
from flask_jobs.errors import (
    InvalidArgument,
    MalformedEnvelope,
    ModelNotFound,
    NewerVersion,
    NoCurrentJob,
    UnknownJob,
    UnrebuildableJob,
)
from flask_jobs.events import job_processing
from flask_jobs.job import Job, Task, TaskJob, task_job
from flask_jobs.options import WorkerDefaults
from flask_jobs.outcome import (
    Done,
    Hopeless,
    Interrupted,
    Newer,
    Outcome,
    Raised,
    Refused,
    Released,
    Skipped,
    TimedOut,
    Unknown,
)

from .support.app import App, job
from .support.values import NOW, reservation


@pytest.fixture
def app() -> App:
    return App()


def raising(error: BaseException) -> Callable[..., Any]:
    def raise_it(*args: object) -> None:
        raise error

    return raise_it


class Around:
    """A middleware that notes when it is left, and does what it is told before or after."""

    def __init__(self, calls: list[str], name: str = "around") -> None:
        self.calls, self.name = calls, name

    def handle(self, job: Job, call_next: Callable[[], None]) -> None:
        self.calls.append(f"{self.name} in")
        call_next()
        self.calls.append(f"{self.name} out")


# The order of things


def test_f29_the_teardown_runs_once_after_the_sessions_are_removed_and_before_the_attempt_is_returned(app: App):
    def handle(self: Job) -> None:
        app.calls.append("handle")

    attempt = app.run(job(handle, middleware=lambda self: [Around(app.calls)]))

    assert attempt.outcome == Done()
    assert app.calls == ["enter", "decode", "around in", "handle", "around out", "cleanup", "teardown"]


@pytest.mark.parametrize(
    "error", [ValueError(), SystemExit(), ReleaseJob(), FailJob("no"), JobTimeout(), KeyboardInterrupt()]
)
def test_f28_sessions_are_removed_and_the_context_torn_down_however_the_body_ends(app: App, error: BaseException):
    app.run(job(raising(error)))

    assert app.calls == ["enter", "decode", "cleanup", "teardown"]
    assert app.teardown_errors == [error]


def test_the_teardown_of_a_job_that_went_well_is_told_of_no_error(app: App):
    app.run(job(lambda self: None))

    assert app.teardown_errors == [None]


@pytest.mark.parametrize("error", [RuntimeError("teardown"), SystemExit(1), ReleaseJob()])
def test_a_raising_teardown_or_cleanup_is_logged_and_changes_nothing(
    app: App, error: BaseException, caplog: pytest.LogCaptureFixture
):
    app.on_teardown = app.on_cleanup = raising(error)

    attempt = app.run(job(lambda self: None))

    assert attempt.outcome == Done()
    assert app.calls[-2:] == ["cleanup", "teardown"]
    assert len([record for record in caplog.records if record.exc_info]) == 2


def test_a_context_that_cannot_be_made_is_an_error_of_the_attempt(app: App):
    error = RuntimeError("no app")
    app.on_enter = raising(error)

    attempt = app.run(job(lambda self: None))

    assert attempt.outcome == Raised(error)
    assert app.calls == []


def test_a_raising_log_handler_changes_nothing(app: App, capsys: pytest.CaptureFixture[str]):
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("log server away")

    app.on_teardown = raising(ValueError("teardown"))
    broken = Broken()
    root = logging.getLogger("flask_jobs")
    root.addHandler(broken)
    try:
        attempt = app.run(job(lambda self: None))
    finally:
        root.removeHandler(broken)

    assert attempt.outcome == Done()
    assert "log server away" in capsys.readouterr().err


# Outcomes


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnknownJob("?"), Unknown),
        (NewerVersion("v3"), Newer),
        (MalformedEnvelope("cut"), Hopeless),
        (UnrebuildableJob("fields"), Hopeless),
        (ModelNotFound("gone"), Hopeless),
        (ModelNotFound("gone", quietly=True), Skipped),
        (OSError("database away"), Raised),
        (SystemExit(3), Raised),
    ],
)
def test_f07_what_cannot_be_rebuilt_has_an_outcome_of_its_own(app: App, error: BaseException, kind: type[Outcome]):
    attempt = app.run(raising(error))

    assert isinstance(attempt.outcome, kind)
    assert attempt.job is None
    assert attempt.options.max_attempts == 3
    assert app.calls[-2:] == ["cleanup", "teardown"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ReleaseJob(5, "not yet"), Released(5, "not yet", started=True)),
        (DiscardJob("nothing to do"), Skipped("nothing to do")),
        (JobInterrupted("a stop"), Interrupted("a stop")),
    ],
)
def test_control_flow_out_of_the_body_is_an_outcome(app: App, error: BaseException, outcome: Outcome):
    assert app.run(job(raising(error))).outcome == outcome


def test_a_timeout_says_which_limit_was_reached(app: App):
    error = JobTimeout()

    assert app.run(job(raising(error), timeout=7)).outcome == TimedOut(7.0, error)


def test_a_job_that_fails_itself_is_hopeless_with_the_error_it_gave(app: App):
    error = ValueError("bad order")

    attempt = app.run(job(lambda self: current_job.fail(error)))

    assert attempt.outcome == Hopeless(error)
    assert error.__traceback__ is not None


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(0), KeyboardInterrupt(), asyncio.CancelledError()])
def test_whatever_else_comes_out_of_the_body_is_an_error_of_the_job(app: App, error: BaseException):
    assert app.run(job(raising(error))).outcome == Raised(error)


def test_an_interrupt_from_the_keyboard_while_the_worker_stops_interrupts_the_job(app: App):
    attempt = app.run(job(raising(KeyboardInterrupt())), is_stopping=lambda: True)

    assert isinstance(attempt.outcome, Interrupted)


def test_bad_options_of_a_stored_job_are_an_error_of_the_attempt(app: App):
    attempt = app.run(job(lambda self: None, timeout="soon"))

    assert isinstance(attempt.outcome, Raised)
    assert isinstance(attempt.outcome.error, InvalidArgument)


def test_a_handle_that_is_a_generator_is_an_error_and_no_silent_success(app: App):
    def handle(self: Job) -> Iterator[int]:
        yield 1

    attempt = app.run(job(handle))

    assert isinstance(attempt.outcome, Raised)
    assert "yield" in str(attempt.outcome.error)


def test_a_job_whose_attempts_are_spent_is_refused_without_running(app: App):
    ran: list[int] = []

    attempt = app.run(job(lambda self: ran.append(1)), held=reservation(attempts=4))

    assert isinstance(attempt.outcome, Refused)
    assert ran == []
    assert app.calls == ["enter", "decode", "cleanup", "teardown"]


def test_the_stores_present_decides_about_the_deadline(app: App):
    held = reservation(attempts=2, retry_until=NOW + 10)

    early = app.run(job(lambda self: None), held=held, now=NOW + 9)
    late = app.run(job(lambda self: None), held=held, now=NOW + 11)

    assert early.outcome == Done()
    assert isinstance(late.outcome, Refused)


def test_the_attempt_brings_the_options_and_the_job_along(app: App):
    made = job(lambda self: None, max_attempts=9)

    attempt = app.run(made, defaults=WorkerDefaults(timeout=3))

    assert (attempt.options.max_attempts, attempt.options.timeout, attempt.job) == (9, 3.0, made)
    assert attempt.seconds > 0


def test_a_backoff_method_is_asked_within_the_app_context(app: App):
    def backoff(self: Job, attempt: int) -> float:
        app.calls.append("backoff")
        return 42.0

    attempt = app.run(job(raising(ValueError()), backoff=backoff))

    assert attempt.options.backoff == (42.0,)
    assert app.calls == ["enter", "decode", "backoff", "cleanup", "teardown"]


@pytest.mark.parametrize("raised", [JobTimeout(), JobInterrupted(), ReleaseJob(5.0), SystemExit(1), GeneratorExit()])
def test_a_backoff_method_is_asked_within_the_time_limit_and_cannot_change_what_the_attempt_was(
    app: App, raised: BaseException
):
    def timer(limit: float, body: Callable[[], None], *, grace: float = 0) -> None:
        app.calls.append(f"timer {limit:g}")
        body()

    def backoff(self: Job, attempt: int) -> float:
        app.calls.append("backoff")
        raise raised

    attempt = app.run(job(raising(ValueError()), backoff=backoff, timeout=7), timer=timer)

    assert isinstance(attempt.outcome, Raised)
    assert attempt.options.backoff is None
    assert app.calls == ["enter", "decode", "timer 7", "timer 7", "backoff", "cleanup", "teardown"]


# Middleware


class Layer:
    """A middleware made of a function."""

    def __init__(self, function: Callable[[Callable[[], None]], Any]) -> None:
        self.function = function

    def handle(self, job: Job, call_next: Callable[[], None]) -> Any:
        return self.function(call_next)


def behind(layer: Callable[[Callable[[], None]], Any], handle: Callable[..., Any] = lambda self: None) -> Job:
    return job(handle, middleware=lambda self: [Layer(layer)])


def test_the_first_middleware_is_the_outermost(app: App):
    layers = [Around(app.calls, "one"), Around(app.calls, "two")]

    app.run(job(lambda self: app.calls.append("handle"), middleware=lambda self: layers))

    assert app.calls[2:-2] == ["one in", "two in", "handle", "two out", "one out"]


def test_a_middleware_that_does_not_call_next_ends_the_job_quietly_and_is_named(app: App):
    attempt = app.run(behind(lambda call_next: None))

    assert attempt.outcome == Skipped("Layer did not call call_next()")


def test_a_release_by_a_middleware_before_the_body_has_not_started_it(app: App):
    assert app.run(behind(raising(ReleaseJob(5, "full")))).outcome == Released(5, "full", started=False)


def test_a_release_by_a_middleware_after_the_body_has_started_it(app: App):
    def layer(call_next: Callable[[], None]) -> None:
        call_next()
        raise ReleaseJob(5, "again")

    assert app.run(behind(layer)).outcome == Released(5, "again", started=True)


def test_a_middleware_may_swallow_an_error(app: App):
    def layer(call_next: Callable[[], None]) -> None:
        with contextlib.suppress(ValueError):
            call_next()

    assert app.run(behind(layer, raising(ValueError()))).outcome == Done()


@pytest.mark.parametrize(("cut", "kind"), [(JobTimeout(), TimedOut), (JobInterrupted(), Interrupted)])
def test_no_middleware_can_swallow_or_replace_a_timeout_or_an_interruption(
    app: App, cut: BaseException, kind: type[Outcome]
):
    def swallow(call_next: Callable[[], None]) -> None:
        with contextlib.suppress(BaseException):
            call_next()

    def replace(call_next: Callable[[], None]) -> None:
        try:
            call_next()
        except BaseException as error:
            raise ReleaseJob(1) from error

    assert isinstance(app.run(behind(swallow, raising(cut))).outcome, kind)
    assert isinstance(app.run(behind(replace, raising(cut))).outcome, kind)


def test_the_body_starts_once_in_an_attempt_whatever_a_middleware_calls(app: App):
    starts: list[int] = []

    def layer(call_next: Callable[[], None]) -> None:
        call_next()
        call_next()

    attempt = app.run(behind(layer, lambda self: starts.append(1)))

    assert isinstance(attempt.outcome, Raised)
    assert "call_next() again" in str(attempt.outcome.error)
    assert starts == [1]


def test_an_async_middleware_is_an_error_and_no_silent_skip(app: App):
    async def layer(call_next: Callable[[], None]) -> None: ...

    attempt = app.run(behind(layer))

    assert isinstance(attempt.outcome, Raised)
    assert "coroutine" in str(attempt.outcome.error)


def test_the_timer_stands_around_middleware_and_body_only(app: App):
    def timer(limit: float, body: Callable[[], None], *, grace: float = 0) -> None:
        app.calls.append(f"timer {limit:g}")
        body()
        app.calls.append("timer off")

    app.run(job(lambda self: None, middleware=lambda self: [Around(app.calls)]), timer=timer)

    assert app.calls == [
        "enter", "decode", "timer 60", "around in", "around out", "timer off", "cleanup", "teardown",
    ]  # fmt: skip


# current_job


def test_current_job_says_what_runs(app: App):
    seen: list[object] = []

    def handle(self: Job) -> None:
        seen.extend([current_job.id, current_job.name, current_job.queue, current_job.attempt, current_job.stopping])

    app.run(job(handle), held=reservation(attempts=2))

    assert seen == ["0190", "demo", "default", 2, False]


def test_there_is_no_current_job_after_the_attempt(app: App):
    app.run(job(lambda self: None))

    with pytest.raises(NoCurrentJob):
        _ = current_job.id


def test_current_job_is_stopping_when_the_worker_is(app: App):
    seen: list[bool] = []

    app.run(job(lambda self: seen.append(current_job.stopping)), is_stopping=lambda: True)

    assert seen == [True]


@pytest.mark.parametrize(
    ("limit", "elapsed", "is_near"), [(10, 8.9, False), (10, 9.1, True), (1000, 994, False), (1000, 996, True)]
)
def test_current_job_is_stopping_shortly_before_the_time_limit(
    app: App, limit: float, elapsed: float, is_near: bool, monkeypatch: pytest.MonkeyPatch
):
    seen: list[bool] = []
    present = [100.0]
    monkeypatch.setattr("flask_jobs.clock.monotonic", lambda: present[0])

    def handle(self: Job) -> None:
        present[0] += elapsed
        seen.append(current_job.stopping)

    app.run(job(handle, timeout=limit))

    assert seen == [is_near]


def test_progress_goes_to_the_reporter(app: App):
    told: list[Progress] = []

    app.run(job(lambda self: current_job.progress(1, 2, "half")), report=told.append)

    assert told == [Progress(1, 2, "half")]


# Nothing of one job is visible to the next

locale: ContextVar[str] = ContextVar("locale")


@pytest.mark.parametrize("end", [None, ValueError(), ReleaseJob(), JobTimeout()])
def test_f31_context_variables_and_decimal_context_end_with_the_job(app: App, end: BaseException | None):
    found: list[object] = []

    def write(self: Job) -> None:
        locale.set("de")
        decimal.getcontext().prec = 3
        if end is not None:
            raise end

    def read(self: Job) -> None:
        found.append((locale.get(None), decimal.getcontext().prec))

    for _ in range(20):
        app.run(job(write))
        app.run(job(read))

    assert set(found) == {(None, decimal.DefaultContext.prec)}


def test_f31_a_job_sees_nothing_of_the_context_that_its_worker_runs_in(app: App):
    found: list[object] = []
    token = locale.set("fr")
    try:
        app.run(job(lambda self: found.append(locale.get(None))))
    finally:
        locale.reset(token)

    assert found == [None]


# Signals


def test_processing_is_told_within_the_app_context_before_the_body(app: App):
    def receive(sender: App, job: Job, **facts: object) -> None:
        sender.calls.append("processing")

    with job_processing.connected_to(receive, sender=app):
        app.run(job(lambda self: app.calls.append("handle")))

    assert app.calls == ["enter", "decode", "processing", "handle", "cleanup", "teardown"]


def test_a_raising_receiver_changes_nothing(app: App, caplog: pytest.LogCaptureFixture):
    def receive(sender: App, **facts: object) -> None:
        raise SystemExit("receiver")

    with job_processing.connected_to(receive, sender=app):
        attempt = app.run(job(lambda self: None))

    assert attempt.outcome == Done()
    assert "job-processing" in caplog.text


# Coroutines


def test_a_coroutine_runs_in_the_same_thread_and_sees_the_context_of_its_job(app: App):
    seen: list[object] = []

    async def handle(self: Job) -> None:
        await asyncio.sleep(0)
        seen.extend([threading.current_thread(), current_job.id, locale.get(None)])

    def layer(call_next: Callable[[], None]) -> None:
        locale.set("de")
        call_next()

    attempt = app.run(behind(layer, handle))

    assert attempt.outcome == Done()
    assert seen == [threading.current_thread(), "0190", "de"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ReleaseJob(5, "not yet"), Released(5, "not yet", started=True)),
        (DiscardJob("nothing"), Skipped("nothing")),
        (SystemExit(1), Raised),
        (ValueError("x"), Raised),
    ],
)
def test_what_comes_out_of_a_coroutine_counts_as_from_plain_code(app: App, error: BaseException, outcome: object):
    async def handle(self: Job) -> None:
        await asyncio.sleep(0)
        raise error

    got = app.run(job(handle)).outcome

    assert got == (Raised(error) if outcome is Raised else outcome)


@pytest.mark.parametrize(
    ("errors", "outcome"),
    [
        ([ReleaseJob(5, "not yet")], Released(5, "not yet", started=True)),
        ([DiscardJob("nothing")], Skipped("nothing")),
        ([ReleaseJob(5), ValueError("x")], Raised),
        ([ValueError("x")], Raised),
    ],
)
def test_what_a_task_of_a_group_says_of_the_job_holds_if_nothing_else_went_wrong(
    app: App, errors: list[BaseException], outcome: object
):
    async def say(error: BaseException) -> None:
        raise error

    async def handle(self: Job) -> None:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(within())

    async def within() -> None:
        async with asyncio.TaskGroup() as group:
            for error in errors:
                group.create_task(say(error))

    got = app.run(job(handle)).outcome

    assert isinstance(got, Raised) if outcome is Raised else got == outcome


async def wait_long() -> None:
    await asyncio.sleep(30)


async def hide_behind_another_error() -> None:
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        raise ValueError("rollback failed") from None


async def swallow() -> None:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(30)


@pytest.mark.parametrize("body", [wait_long, hide_behind_another_error, swallow])
def test_a_coroutine_is_cancelled_at_its_limit_whatever_it_makes_of_it(app: App, body: Callable[[], Any]):
    attempt = app.run(job(lambda self: body(), timeout=0.05))

    assert isinstance(attempt.outcome, TimedOut)
    assert attempt.outcome.limit == 0.05
    assert attempt.seconds < 5


def test_what_a_coroutine_leaves_running_is_closed(app: App):
    closed: list[str] = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            closed.append("generator")

    async def forgotten() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            closed.append("task")

    kept: list[object] = []

    async def handle(self: Job) -> None:
        stream = numbers()
        kept.extend([stream, asyncio.ensure_future(forgotten())])
        await anext(stream)
        await asyncio.sleep(0)

    attempt = app.run(job(handle))

    assert attempt.outcome == Done()
    assert sorted(closed) == ["generator", "task"]


def test_a_coroutine_job_can_run_where_a_loop_runs_already(app: App):
    seen: list[object] = []

    async def handle(self: Job) -> None:
        await asyncio.sleep(0)
        seen.append(current_job.id)

    async def view() -> Outcome:
        return app.run(job(handle)).outcome

    assert asyncio.run(view()) == Done()
    assert seen == ["0190"]


def test_a_task_may_be_a_coroutine_function(app: App):
    seen: list[int] = []

    async def nightly(day: int) -> None:
        await asyncio.sleep(0)
        seen.append(day)

    made: TaskJob = Task(nightly, task_job(nightly, {"timeout": 5}))(3)

    assert app.run(made).outcome == Done()
    assert seen == [3]


# failed()


def hook(app: App, made: Job | Callable[[], Job], error: BaseException, **given: Any) -> Hook:
    app.jobs["demo"] = (lambda: made) if isinstance(made, Job) else made
    return app.executor.run_hook(reservation(), error, **given)


def test_the_hook_is_given_the_error_in_a_context_of_its_own(app: App):
    seen: list[object] = []
    error = ValueError("x")

    def failed(self: Job, error: BaseException) -> None:
        seen.append(error)

    assert hook(app, job(lambda self: None, failed=failed), error) is Hook.RAN
    assert seen == [error]
    assert app.calls == ["enter", "decode", "cleanup", "teardown"]


def test_a_hook_may_be_a_coroutine_function(app: App):
    seen: list[object] = []

    async def failed(self: Job, error: BaseException) -> None:
        await asyncio.sleep(0)
        seen.append(error)

    assert hook(app, job(lambda self: None, failed=failed), ValueError()) is Hook.RAN
    assert len(seen) == 1


@pytest.mark.parametrize("error", [RuntimeError(), SystemExit(), ReleaseJob(), KeyboardInterrupt(), JobTimeout()])
def test_a_raising_hook_is_logged(app: App, error: BaseException, caplog: pytest.LogCaptureFixture):
    made = job(lambda self: None, failed=lambda self, _: raising(error)())

    assert hook(app, made, ValueError()) is Hook.RAISED
    assert "failed()" in caplog.text
    assert app.calls[-2:] == ["cleanup", "teardown"]


def test_a_job_without_a_hook_has_none(app: App):
    assert hook(app, job(lambda self: None), ValueError()) is Hook.NONE


def test_a_job_that_cannot_be_rebuilt_has_no_hook(app: App):
    assert hook(app, raising(ModelNotFound("gone")), ValueError()) is Hook.NONE


def test_a_hook_without_a_context_is_logged(app: App, caplog: pytest.LogCaptureFixture):
    app.on_enter = raising(RuntimeError("no app"))

    assert hook(app, job(lambda self: None, failed=lambda self, e: None), ValueError()) is Hook.RAISED
    assert "no app" in caplog.text


def test_a_hook_runs_within_the_time_limit_of_its_job(app: App):
    limits: list[float] = []

    def timer(limit: float, body: Callable[[], None], *, grace: float = 0) -> None:
        limits.append(limit)
        body()

    hook(app, job(lambda self: None, failed=lambda self, e: None), ValueError(), timer=timer, limit=lambda job: 4)

    assert limits == [4]


def test_nothing_of_an_attempt_is_kept_alive_by_the_executor(app: App):
    made = job(lambda self: None)

    app.run(made)
    app.jobs.clear()

    # The local name and the call's own argument.
    assert sys.getrefcount(made) <= 2
