"""RQ on Redis. Its unit is a process; its default forks one for each job, BENCH_OPTION names another class."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import redis
import rq

from ..record import perform
from . import OPTION, URL, Peer

queue = rq.Queue("bench", connection=redis.Redis.from_url(URL))


class Rq(Peer):
    def dispatch(self, number: int, seconds: float) -> None:
        queue.enqueue(perform, number, seconds)

    def dispatch_many(self, numbers: Sequence[int], seconds: float) -> None:
        queue.enqueue_many([rq.Queue.prepare_data(perform, args=(number, seconds)) for number in numbers])

    def command(self, processes: int, threads: int) -> list[str]:
        count = processes * threads
        kind = ["worker"] if count == 1 else ["worker-pool", "--num-workers", str(count)]
        options = ["--quiet", "--url", URL, "--worker-class", OPTION or "rq.Worker"]
        return [sys.executable, "-m", "rq.cli", *kind, *options, "bench"]


peer = Rq()
