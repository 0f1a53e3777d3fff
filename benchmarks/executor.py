"""What the work around a job costs without a store, on one core: `python -m benchmarks.executor`.

A job that does nothing is run by the executor alone, as a worker does it (verify, decode, app context, handle, decide),
and by a whole worker on the memory driver, which also takes and settles it. With signing off the same once more.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from flask_jobs.drivers.memory import MemoryDriver
from flask_jobs.envelope import Counters, Envelope, Reservation
from flask_jobs.ids import new_id
from flask_jobs.options import WorkerDefaults
from flask_jobs.pushes import Push
from flask_jobs.slate import Lane, Slate
from flask_jobs.state import EXTENSION, AppState
from flask_jobs.worker import Post, Worker, WorkerSettings
from flask_jobs.worker.alarm import Alarm
from flask_jobs.worker.processor import Delivery, Processor
from flask_jobs.worker.renewal import Lease

from .app import create_app, nothing
from .report import rows_of

JOBS = 5_000
REPEATS = 5
QUEUE = "default"
RETRY_AFTER = 90.0

Measure = Callable[[AppState, int], float]
"""Seconds of CPU for so many jobs."""


def executor_alone(state: AppState, jobs: int) -> float:
    """Run and judge each job, with its time limit and its notes for a supervisor."""
    deliveries = [_delivery(envelope) for envelope in _envelopes(state, jobs)]
    with _lane() as lane, Alarm() as alarm:
        processor = Processor(
            MemoryDriver(),
            state.executor(state.config.default),
            lane=lane,
            defaults=WorkerDefaults(),
            timer=alarm,
            is_stopping=lambda: False,
            jitter=random.random,
        )
        began = time.process_time()
        for delivery in deliveries:
            processor.judge(delivery)
        return time.process_time() - began


def memory_driver(state: AppState, jobs: int) -> float:
    """Let a worker take, run and settle each job, until none is left."""
    name = state.config.default
    driver = MemoryDriver(retry_after=RETRY_AFTER)
    driver.push([Push(envelope) for envelope in _envelopes(state, jobs)])
    with _lane() as lane:
        settings = WorkerSettings(queues=(QUEUE,), stop_when_empty=True)
        executor, events = state.executor(name), state.events(name)
        worker = Worker(driver, executor, events=events, settings=settings, post=Post(lane=lane))
        began = time.process_time()
        worker.run()
        return time.process_time() - began


MEASURES: dict[str, Measure] = {"executor alone": executor_alone, "worker on the memory driver": memory_driver}


def measured(jobs: int, repeats: int) -> dict[str, list[float]]:
    """The least of so many repeats, in µs of CPU for each job: by signing, one figure for each measure."""
    with TemporaryDirectory(prefix="bench-") as folder:
        states = {"signed": _state(folder, sign=True), "JOBS_SIGN off": _state(folder, sign=False)}
        figures = {(kind, name): [0.0] * 0 for kind in states for name in MEASURES}
        for _ in range(repeats):  # in turn, so that what else the machine does meets all alike
            for kind, name in figures:
                figures[kind, name].append(1e6 * MEASURES[name](states[kind], jobs) / jobs)
    return {kind: [min(figures[kind, name]) for name in MEASURES] for kind in states}


def section(jobs: int = JOBS, repeats: int = REPEATS) -> str:
    """The figures as a table that can be read as it is."""
    cells = [[kind, *(f"{value:.1f}" for value in values)] for kind, values in measured(jobs, repeats).items()]
    return rows_of([["µs of CPU for each job, without a store", *MEASURES], *cells])


def _state(folder: str, *, sign: bool) -> AppState:
    os.environ["BENCH_FOLDER"] = folder
    app = create_app(JOBS_SIGN=sign)
    state: AppState = app.extensions[EXTENSION]
    return state


def _envelopes(state: AppState, jobs: int) -> Iterator[Envelope]:
    for number in range(jobs):
        name, body = state.serializer.encode(nothing(number, 0.0))
        yield Envelope(new_id(), name, QUEUE, body)


def _delivery(envelope: Envelope) -> Delivery:
    now = time.time()
    reservation = Reservation(envelope, Counters(attempts=1), new_id(), now, now)
    return Delivery(Lease(reservation, time.monotonic() + RETRY_AFTER), time.monotonic())


@contextmanager
def _lane() -> Iterator[Lane]:
    """What a worker under a supervisor notes its jobs on."""
    slate, descriptor = Slate.make(1)
    os.close(descriptor)
    try:
        yield slate.lane(0)
    finally:
        slate.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"how many jobs a repeat has (default {JOBS:,})")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"the least of so many (default {REPEATS})")
    arguments = parser.parse_args()
    print(section(arguments.jobs, arguments.repeats))


if __name__ == "__main__":
    main()
