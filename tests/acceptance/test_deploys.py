"""New code is rolled out while the shop is open: no request fails, no attempt is spent, no job is lost."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.acceptance.shop import ORDER, Shop, kill, wait_for
from tests.acceptance.test_example_app_on_servers import post


class ProcessManager:
    """Keeps `flask jobs work` running as systemd does, and keeps what it has said."""

    def __init__(self, shop: Shop) -> None:
        self.codes: list[int] = []
        self.said = ""
        self._shop = shop
        self._is_closing = False
        self._process = self._start()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def has_workers(self) -> bool:
        """Whether a restart that is asked for now is meant for these, and not for those who come after them."""
        process = self._process
        return process.poll() is None and bool(psutil.Process(process.pid).children())

    def close(self) -> None:
        self._is_closing = True
        self._process.send_signal(signal.SIGTERM)
        self._thread.join(60)
        if self._process.poll() is None:
            kill(self._process)

    def _start(self) -> subprocess.Popen[str]:
        return self._shop.start("jobs", "work", "--queue", "default,low", "--processes", "2", "-v")

    def _run(self) -> None:
        while True:
            _, said = self._process.communicate()
            self.said += said
            self.codes.append(self._process.returncode)
            if self._is_closing:
                return
            self._process = self._start()


@contextmanager
def customers(shop: Shop, every: float) -> Iterator[list[int]]:
    """Orders that come in all the while; gives the status of each answer."""
    answers: list[int] = []
    is_open = threading.Event()
    is_open.set()

    def order() -> None:
        while is_open.is_set():
            answers.append(post(shop, "/orders", ORDER))
            time.sleep(every)

    thread = threading.Thread(target=order)
    thread.start()
    try:
        yield answers
    finally:
        is_open.clear()
        thread.join(30)


@pytest.mark.parametrize(
    ("deploys", "every", "orders_every"),
    # The shop sends 30 mails a minute, and each order has one.
    [pytest.param(2, 4, 0.8, marks=pytest.mark.slow), pytest.param(12, 10, 2.2, marks=pytest.mark.volume)],
)
def test_deploys_under_load_fail_no_request_spend_no_attempt_and_lose_no_job(
    tmp_path: Path, deploys: int, every: float, orders_every: float
) -> None:
    shop = Shop(tmp_path)
    manager = ProcessManager(shop)
    try:
        with customers(shop, orders_every) as answers:
            for _ in range(deploys):
                time.sleep(every)
                wait_for(manager.has_workers, "the workers of the code before")
                shop.flask("jobs", "restart")
            wait_for(lambda: len(manager.codes) >= deploys, "every restart", limit=60)
            wait_for(manager.has_workers, "the workers of the last code")
        wait_for(lambda: {order["status"] for order in shop.orders()} == {"shipped"}, "all orders", limit=120)
    finally:
        manager.close()

    assert set(answers) == {201}
    assert len(answers) > deploys
    assert set(manager.codes) == {0}
    assert len(manager.codes) == deploys + 1
    assert sorted(shop.charges()) == sorted(f"order-{number}" for number in range(1, len(answers) + 1))
    assert len(shop.recipients()) == len(shop.documents()) == len(shop.documents("labels")) == len(answers)
    assert not re.search(r"attempt [2-9]\) (running|processed|released|failed)", manager.said)
    assert [line for line in manager.said.splitlines() if re.search(r"Z (WARNING|ERROR) ", line)] == []
    shop.close()
