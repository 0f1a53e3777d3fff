"""PgQueuer on PostgreSQL, with jobs that are coroutines. A worker takes ten jobs at a time and begins them together.

Its worker is started from code, under the event loop that its own command line uses.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from ..record import perform_async
from . import URL
from .coroutines import AsyncPeer

NAME = "bench.job"
AT_ONCE = 10  # its default


class PgQueuerPeer(AsyncPeer):
    apart = True

    async def open(self) -> None:
        self._queries = Queries(AsyncpgDriver(await asyncpg.connect(URL)))
        if not await self._queries.has_table("pgqueuer"):
            await self._queries.install()

    async def dispatch_async(self, number: int, seconds: float) -> None:
        await self._queries.enqueue(NAME, _payload(number, seconds))

    async def dispatch_many_async(self, numbers: Sequence[int], seconds: float) -> None:
        payloads: list[bytes | None] = [_payload(number, seconds) for number in numbers]
        await self._queries.enqueue([NAME] * len(payloads), payloads, [0] * len(payloads))

    def command(self, processes: int, threads: int) -> list[str]:
        return [sys.executable, "-m", __name__, str(threads)]


def _payload(number: int, seconds: float) -> bytes:
    return json.dumps((number, seconds)).encode()


async def work(threads: int) -> None:
    """Run jobs for ever: one after the other has no setting, so that one thread is as many as it takes at a time."""
    application = PgQueuer(AsyncpgDriver(await asyncpg.connect(URL)))

    @application.entrypoint(NAME)
    async def job(found: Job) -> None:
        assert found.payload is not None
        await perform_async(*json.loads(found.payload))

    if threads == 1:
        await application.run(batch_size=AT_ONCE)
    else:
        # The most that may run at once must be twice what is taken in one step.
        await application.run(batch_size=threads // 2, max_concurrent_tasks=threads)


peer = PgQueuerPeer()

if __name__ == "__main__":
    uvloop.run(work(int(sys.argv[1])))
