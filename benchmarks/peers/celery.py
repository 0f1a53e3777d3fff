"""Celery on Redis, without results. Its unit is a process; BENCH_OPTION names another pool."""

from __future__ import annotations

import sys

import celery

from ..record import perform
from . import OPTION, URL, Peer

app = celery.Celery("bench", broker=URL)
app.conf.broker_connection_retry_on_startup = True


@app.task
def job(number: int, seconds: float) -> None:
    perform(number, seconds)


class Celery(Peer):
    def dispatch(self, number: int, seconds: float) -> None:
        job.delay(number, seconds)

    def command(self, processes: int, threads: int) -> list[str]:
        options = ["--loglevel", "WARNING", "--pool", OPTION or "prefork", "--concurrency", str(processes * threads)]
        return [sys.executable, "-m", "celery", "--app", __name__, "worker", *options]


peer = Celery()
