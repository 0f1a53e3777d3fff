"""Huey on each of its stores. What a worker takes is gone from the store before it runs."""

from __future__ import annotations

import sys

import huey

from ..record import perform
from . import STORE, URL, Peer

match STORE:
    case "Redis":
        queue = huey.RedisHuey("bench", url=URL)
    case "PostgreSQL":
        queue = huey.PostgresHuey("bench", dsn=URL)
    case _:
        queue = huey.SqliteHuey("bench", filename=URL)


@queue.task()
def job(number: int, seconds: float) -> None:
    perform(number, seconds)


class Huey(Peer):
    def dispatch(self, number: int, seconds: float) -> None:
        job(number, seconds)

    def command(self, processes: int, threads: int) -> list[str]:
        kind = "process" if threads == 1 else "thread"
        options = ["--quiet", "--workers", str(processes * threads), "--worker-type", kind]
        return [sys.executable, "-m", "huey.bin.huey_consumer", f"{__name__}.queue", *options]


peer = Huey()
