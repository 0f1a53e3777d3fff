"""What each job leaves behind, whoever runs it: its number, and when it began and ended, in a file all append to."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

_LINE = struct.Struct("<qqq")


class Run(NamedTuple):
    """One run of a job; the instants are nanoseconds of the monotonic clock."""

    number: int
    began: int
    ended: int


def now() -> int:
    """The instant, as it is recorded."""
    return time.monotonic_ns()


def record(number: int, began: int) -> None:
    """Append that this job ends now."""
    os.write(_file(), _LINE.pack(number, began, now()))


def perform(number: int, seconds: float) -> None:
    """The whole body of the job that everyone runs."""
    began = now()
    if seconds:
        time.sleep(seconds)
    record(number, began)


async def perform_async(number: int, seconds: float) -> None:
    """The same as a coroutine."""
    began = now()
    if seconds:
        await asyncio.sleep(seconds)
    record(number, began)


def runs(path: Path) -> list[Run]:
    """All that is recorded so far."""
    data = path.read_bytes()
    return [Run(*line) for line in _LINE.iter_unpack(data[: len(data) // _LINE.size * _LINE.size])]


def count(path: Path) -> int:
    """How many runs are recorded so far."""
    return path.stat().st_size // _LINE.size


@cache
def _file() -> int:
    return os.open(os.environ["BENCH_RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
