"""Dramatiq on Redis. With fewer threads than its default of 8 a process mostly waits, so it is never given fewer."""

from __future__ import annotations

import sys

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from ..record import perform
from . import URL, Peer

LEAST_THREADS = 8

dramatiq.set_broker(RedisBroker(url=URL))


@dramatiq.actor
def job(number: int, seconds: float) -> None:
    perform(number, seconds)


class Dramatiq(Peer):
    def dispatch(self, number: int, seconds: float) -> None:
        job.send(number, seconds)

    def command(self, processes: int, threads: int) -> list[str]:
        options = ["--processes", str(processes), "--threads", str(max(threads, LEAST_THREADS))]
        return [sys.executable, "-m", "dramatiq", __name__, *options]


peer = Dramatiq()
