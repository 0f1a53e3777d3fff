"""Procrastinate on PostgreSQL, with jobs that are coroutines. It keeps the rows of finished jobs."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import procrastinate

from ..record import perform_async
from . import URL, Peer

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=URL))


@app.task(name="bench.job")
async def job(number: int, seconds: float) -> None:
    await perform_async(number, seconds)


class Procrastinate(Peer):
    apart = True

    def prepare(self) -> None:
        app.open()
        if not app.check_connection():
            app.schema_manager.apply_schema()

    def dispatch(self, number: int, seconds: float) -> None:
        job.defer(number=number, seconds=seconds)

    def dispatch_many(self, numbers: Sequence[int], seconds: float) -> None:
        job.batch_defer(*[{"number": number, "seconds": seconds} for number in numbers])

    def command(self, processes: int, threads: int) -> list[str]:
        return [sys.executable, "-m", "procrastinate", "--app", f"{__name__}.app", "worker", "-c", str(threads)]


peer = Procrastinate()
