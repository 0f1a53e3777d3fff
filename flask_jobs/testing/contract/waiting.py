"""What waiting promises: it ends when there may be work, in time, and when it is told to."""

from __future__ import annotations

import threading

from ... import clock
from ...driver import Driver
from ...envelope import After
from .support import Contract, pop, push, until

LIMIT = 10.0


class WaitContract(Contract):
    """Promise 7."""

    def test_a_wait_without_work_ends_at_its_limit(self, driver: Driver) -> None:
        push(driver, queue="other")

        assert 0.05 <= waited(driver, timeout=0.05) < LIMIT / 2

    def test_a_wait_ends_at_once_when_there_is_work(self, driver: Driver) -> None:
        push(driver)

        assert waited(driver, timeout=LIMIT) < LIMIT / 2

    def test_a_push_ends_the_wait_of_another_worker(self, driver: Driver, second: Driver) -> None:
        waiting = _Waiting(second)
        push(driver)

        assert waiting.seconds() < LIMIT / 2
        assert pop(second).reservations

    def test_a_job_that_falls_due_ends_the_wait(self, driver: Driver) -> None:
        push(driver, due=After(0.1))

        assert waited(driver, timeout=LIMIT) < LIMIT / 2
        assert pop(driver).reservations

    def test_a_job_pushed_meanwhile_that_falls_due_ends_the_wait(self, driver: Driver, second: Driver) -> None:
        waiting = _Waiting(second)
        push(driver, due=After(0.1))

        assert waiting.seconds() < LIMIT / 2

    def test_a_stop_ends_the_wait(self, driver: Driver) -> None:
        waiting = _Waiting(driver)
        waiting.stop()

        assert waiting.seconds() < LIMIT / 2


class _Waiting:
    """A worker that waits in a thread of its own."""

    def __init__(self, driver: Driver) -> None:
        self._stopping = threading.Event()
        self._asked = 0
        self._seconds = 0.0
        self._thread = threading.Thread(target=self._wait, args=(driver,))
        self._thread.start()
        until(lambda: self._asked > 2)

    def stop(self) -> None:
        self._stopping.set()

    def seconds(self) -> float:
        """How long it waited altogether."""
        self._thread.join()
        return self._seconds

    def _wait(self, driver: Driver) -> None:
        start = clock.monotonic()
        driver.wait(["default"], timeout=LIMIT, stopping=self._is_stopping)
        self._seconds = clock.monotonic() - start

    def _is_stopping(self) -> bool:
        self._asked += 1
        return self._stopping.is_set()


def waited(driver: Driver, *, timeout: float) -> float:
    """How long a wait on the default queue takes."""
    start = clock.monotonic()
    driver.wait(["default"], timeout=timeout, stopping=lambda: False)
    return clock.monotonic() - start
