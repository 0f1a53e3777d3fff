"""SAQ on Redis and on PostgreSQL, with jobs that are coroutines. It keeps finished jobs for ten minutes."""

from __future__ import annotations

import sys
from typing import Any

import uvloop
from saq import Queue, Worker

from ..record import perform_async
from . import URL
from .coroutines import AsyncPeer

queue = Queue.from_url(URL, name="bench")


async def job(_context: Any, *, number: int, seconds: float) -> None:
    await perform_async(number, seconds)


class Saq(AsyncPeer):
    apart = True

    async def open(self) -> None:
        await queue.connect()

    async def dispatch_async(self, number: int, seconds: float) -> None:
        await queue.enqueue("job", number=number, seconds=seconds)

    def command(self, processes: int, threads: int) -> list[str]:
        return [sys.executable, "-m", __name__, str(threads)]


async def work(threads: int) -> None:
    """Run jobs for ever."""
    await queue.connect()
    await Worker(queue, functions=[job], concurrency=threads).start()


peer = Saq()

if __name__ == "__main__":
    uvloop.run(work(int(sys.argv[1])))
