"""The side of one peer, run by its own Python: `python -m benchmarks.side PEER dispatch|many|fill|wake|work ...`.

What it measures it prints as one line of JSON.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable

from .peers import NoSuchCall, Peer
from .record import now

WARM = -1
"""The number of the job that opens connections, before anything is timed."""

EACH = 1_000
LOOK = 50
"""After how many single calls the time is looked at."""


def dispatch(peer: Peer, amount: int, seconds: float, limit: float) -> dict[str, float]:
    """Dispatch one by one, no longer than the limit."""
    peer.dispatch(WARM, seconds)
    return _each(peer, amount, seconds, limit)


def many(peer: Peer, amount: int, seconds: float, limit: float) -> dict[str, float] | None:
    """The same in thousands; None if it has no call for that."""
    peer.dispatch(WARM, seconds)
    return _many(peer, amount, seconds, limit)


def fill(peer: Peer, amount: int, seconds: float, limit: float) -> dict[str, float]:
    """The same in the quickest way it has."""
    peer.dispatch(WARM, seconds)
    return _many(peer, amount, seconds, limit) or _each(peer, amount, seconds, limit)


DISPATCHES = {"dispatch": dispatch, "many": many, "fill": fill}


def _each(peer: Peer, amount: int, seconds: float, limit: float) -> dict[str, float]:
    return _timed(amount, limit, LOOK, lambda numbers: peer.dispatch_each(numbers, seconds))


def _many(peer: Peer, amount: int, seconds: float, limit: float) -> dict[str, float] | None:
    try:
        return _timed(amount, limit, EACH, lambda numbers: peer.dispatch_many(numbers, seconds))
    except NoSuchCall:
        return None


def _timed(amount: int, limit: float, step: int, store: Callable[[range], None]) -> dict[str, float]:
    done = 0
    began = time.perf_counter()
    while done < amount and time.perf_counter() < began + limit:
        numbers = range(done, min(done + step, amount))
        store(numbers)
        done = numbers.stop
    return {"jobs": done, "seconds": time.perf_counter() - began}


def wake(peer: Peer, amount: int) -> list[int]:
    """Dispatch after pauses of 5 to 30 ms: the instants right before each."""
    peer.dispatch(WARM, 0)
    pauses = random.Random(7)
    sent = []
    for number in range(amount):
        time.sleep(pauses.uniform(0.005, 0.030))
        sent.append(now())
        peer.dispatch(number, 0)
    return sent


def work(peer: Peer, processes: int, threads: int) -> None:
    """Become a worker, of jobs that were dispatched before: the store is prepared."""
    command = peer.command(processes, threads)
    for _ in range(processes - 1 if peer.apart else 0):
        subprocess.Popen(command)
    os.execv(command[0], command)


def main() -> None:
    """Do what the command line says."""
    name, action, *numbers = sys.argv[1:]
    peer: Peer = importlib.import_module(f"benchmarks.peers.{name}").peer
    if action == "work":
        return work(peer, int(numbers[0]), int(numbers[1]))
    peer.prepare()
    if action == "wake":
        return _print(wake(peer, int(numbers[0])))
    amount, seconds, limit = int(numbers[0]), float(numbers[1]), float(numbers[2])
    return _print(DISPATCHES[action](peer, amount, seconds, limit))


def _print(result: object) -> None:
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
