from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from flask_jobs import clock
from flask_jobs.control import JobInterrupted, JobTimeout
from flask_jobs.worker import alarm as alarm_module
from flask_jobs.worker.alarm import Alarm


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    with Alarm() as installed:
        yield installed


def spin(seconds: float) -> None:
    ends = clock.monotonic() + seconds
    while clock.monotonic() < ends:
        pass


def test_a_body_is_cut_short_at_its_limit(alarm: Alarm):
    began = clock.monotonic()

    with pytest.raises(JobTimeout, match="time limit"):
        alarm(0.05, lambda: time.sleep(10))

    assert 0.05 <= clock.monotonic() - began < 5


def test_the_grace_comes_on_top_of_the_limit(alarm: Alarm):
    began = clock.monotonic()

    with pytest.raises(JobTimeout):
        alarm(0.01, lambda: time.sleep(10), grace=0.1)

    assert clock.monotonic() - began >= 0.1


def test_a_limit_of_0_is_none(alarm: Alarm):
    alarm(0, lambda: spin(0.02))


def test_no_limit_outlasts_its_body(alarm: Alarm):
    alarm(0.02, lambda: None)

    spin(0.06)
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 1 or signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_an_error_of_the_body_passes(alarm: Alarm):
    with pytest.raises(ZeroDivisionError):
        alarm(10, lambda: print(1 / 0))


def test_what_a_body_raises_in_return_does_not_hide_its_timeout(alarm: Alarm):
    def body() -> None:
        try:
            time.sleep(10)
        except BaseException:
            raise ValueError("rollback failed") from None

    with pytest.raises(JobTimeout) as caught:
        alarm(0.02, body)

    assert isinstance(caught.value.__cause__, ValueError)


def test_a_body_that_swallows_its_timeout_is_told_again(alarm: Alarm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alarm_module, "AGAIN", 0.05)

    def body() -> None:
        with contextlib.suppress(BaseException):
            time.sleep(10)
        time.sleep(10)

    with pytest.raises(JobTimeout):
        alarm(0.02, body)


def test_no_timeout_leaks_out_of_the_region_however_close_it_strikes(alarm: Alarm):
    """Limits that end just when the body does, over and over, with everything around watched."""
    cut = survived = 0
    for turn in range(1_500):
        length = 0.0003 + (turn % 50) * 0.000004
        try:
            try:
                alarm(0.0004, lambda length=length: spin(length))
                survived += 1
            except JobTimeout:
                cut += 1
        except JobTimeout:  # pragma: no cover - between the two handlers
            pytest.fail("The timeout came late.")
        spin(0.0001)

    assert cut > 20
    assert survived > 20


def test_what_strikes_comes_out_of_the_body_however_short_the_limit_is(alarm: Alarm):
    ways: list[list[str]] = []

    def body() -> None:
        spin(0.0002)

    for _ in range(1_000):
        try:
            alarm(0.00001, body)
        except JobTimeout as error:
            ways.append([frame.name for frame in traceback.extract_tb(error.__traceback__)])

    assert len(ways) > 100
    assert all("_inside" in way for way in ways)


def test_an_alarm_that_comes_after_the_body_changes_nothing(alarm: Alarm):
    with pytest.raises(JobTimeout):
        alarm(0.001, lambda: spin(1))
    before = signal.getitimer(signal.ITIMER_REAL)

    os.kill(os.getpid(), signal.SIGALRM)
    spin(0.01)

    after = signal.getitimer(signal.ITIMER_REAL)
    assert after[1] == before[1]
    assert before[0] - 1 <= after[0] <= before[0]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_timeout_that_a_finalizer_swallowed_is_told_again(alarm: Alarm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(alarm_module, "AGAIN", 0.4)
    finalized: list[float] = []

    class Slow:
        def __del__(self) -> None:
            finalized.append(clock.monotonic())
            time.sleep(10)

    def body() -> None:
        Slow()
        gc.collect()
        time.sleep(10)

    with pytest.raises(JobTimeout):
        alarm(0.2, body)

    assert finalized


def test_an_interruption_cuts_short_a_body_without_a_limit(alarm: Alarm):
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1))
    previous = signal.signal(signal.SIGUSR1, lambda number, frame: alarm.interrupt())
    try:
        timer.start()
        with pytest.raises(JobInterrupted):
            alarm(0, lambda: time.sleep(10))
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, previous)


def test_after_an_interruption_nothing_starts_any_more(alarm: Alarm):
    ran: list[int] = []
    alarm.interrupt()

    with pytest.raises(JobInterrupted):
        alarm(5, lambda: ran.append(1))

    assert ran == []


def test_the_handler_and_timer_from_before_are_given_back():
    fired: list[int] = []

    def mine(number: int, frame: FrameType | None) -> None:
        fired.append(number)

    handler = signal.signal(signal.SIGALRM, mine)
    timer = signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with Alarm() as alarm:
            with pytest.raises(JobTimeout):
                alarm(0.02, lambda: time.sleep(10))
            assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] < 0.2
        assert signal.getsignal(signal.SIGALRM) is mine
        spin(0.25)
        assert fired == [signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def test_an_alarm_from_before_goes_off_between_two_bodies():
    fired: list[int] = []
    handler = signal.signal(signal.SIGALRM, lambda number, frame: fired.append(number))
    timer = signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with Alarm() as alarm:
            alarm(10, lambda: spin(0.1))
            assert fired == []
            spin(0.02)
            assert fired == [signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def test_a_job_that_takes_the_alarm_for_itself_does_not_keep_it(alarm: Alarm):
    alarm(5, lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN) and None)
    alarm.insist()

    with pytest.raises(JobTimeout):
        alarm(0.02, lambda: time.sleep(10))


def off_the_main_thread(call: Callable[[], None]) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_off_the_main_thread_a_limit_is_not_accepted_silently(caplog: pytest.LogCaptureFixture):
    ran: list[int] = []

    def work() -> None:
        with Alarm() as alarm:
            for _ in range(3):
                alarm(5, lambda: ran.append(1))

    off_the_main_thread(work)

    assert ran == [1, 1, 1]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "Time limits cannot be enforced in this thread" in caplog.text


def test_off_the_main_thread_a_job_without_a_limit_needs_no_warning(caplog: pytest.LogCaptureFixture):
    def work() -> None:
        with Alarm() as alarm:
            alarm(0, lambda: None)

    off_the_main_thread(work)

    assert caplog.records == []
