"""Taskiq on Redis, with a list and without results; jobs are coroutines. What is taken is gone from the list."""

from __future__ import annotations

import sys

from taskiq_redis import ListQueueBroker

from ..record import perform_async
from . import URL
from .coroutines import AsyncPeer

broker = ListQueueBroker(URL, queue_name="bench")


@broker.task
async def job(number: int, seconds: float) -> None:
    await perform_async(number, seconds)


class Taskiq(AsyncPeer):
    async def open(self) -> None:
        await broker.startup()

    async def dispatch_async(self, number: int, seconds: float) -> None:
        await job.kiq(number, seconds)

    def command(self, processes: int, threads: int) -> list[str]:
        options = ["--workers", str(processes), "--max-async-tasks", str(threads), "--log-level", "WARNING"]
        return [sys.executable, "-m", "taskiq", "worker", f"{__name__}:broker", *options]


peer = Taskiq()
