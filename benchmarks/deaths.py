"""How soon a job runs again after its worker was killed, and an idle command stops: `python -m benchmarks.deaths`."""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from .app import Linger, create_app, jobs, noted
from .stores import STORES, Place

LIMIT = 60.0


def measure(folder: Path, amount: int) -> dict[str, float]:
    """Milliseconds from the death of a worker to its job running again, and of a stop of an idle command."""
    figures = {f"death to run again, of {count}, ms": _recovery(folder, count, amount) for count in (1, 2)}
    with _app(folder), _worker(folder, "--queue", "idle") as worker:
        already = len(noted(folder, "started"))
        _until(lambda: len(noted(folder, "started")) > already)
        time.sleep(0.2)
        began = time.perf_counter()
        worker.terminate()
        worker.wait(LIMIT)
        return {**figures, "idle stop, ms": 1_000 * (time.perf_counter() - began)}


def _recovery(folder: Path, processes: int, amount: int) -> float:
    """The longest of so many."""
    with _app(folder):
        jobs.driver().clear("default")  # type: ignore[attr-defined]
        jobs.dispatch(Linger())
        before = len(noted(folder, "lingers"))
        with _worker(folder, "--processes", str(processes), "--grace", "0.1"):
            _until(lambda: len(noted(folder, "lingers")) > before)
            return max(_death(folder) for _ in range(amount))


def _death(folder: Path) -> float:
    begun = len(noted(folder, "lingers"))
    time.sleep(2)  # so that the other one is up again, too
    os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
    killed = time.clock_gettime(time.CLOCK_MONOTONIC)
    _until(lambda: len(noted(folder, "lingers")) > begun)
    return 1_000 * (noted(folder, "lingers")[-1] - killed)


@contextmanager
def _app(folder: Path) -> Iterator[None]:
    os.environ["BENCH_FOLDER"] = str(folder)
    app = create_app()
    with app.app_context():
        jobs.driver().prepare()
        yield
    app.extensions["flask_jobs"].connections.close()


@contextmanager
def _worker(folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "flask", "--app", "benchmarks.app", "jobs", "work", *options]
    with subprocess.Popen(
        command, env={**os.environ, "BENCH_FOLDER": str(folder)}, stderr=subprocess.DEVNULL
    ) as worker:
        try:
            yield worker
        finally:
            worker.terminate()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("The worker did not do it in time.")
        time.sleep(0.002)


@contextmanager
def _environment(place: Place) -> Iterator[None]:
    """What the app and its worker read their settings from."""
    os.environ.update(place.environment)
    try:
        yield
    finally:
        for name in place.environment:
            del os.environ[name]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="how many runs the medians are of (default 3)")
    parser.add_argument("--deaths", type=int, default=10, help="how many workers are killed in each (default 10)")
    arguments = parser.parse_args()
    for store in STORES:
        if store.version() is None:
            continue
        runs = []
        for _ in range(arguments.runs):
            with TemporaryDirectory() as folder, store.opened(Path(folder)) as place, _environment(place):
                runs.append(measure(Path(folder), arguments.deaths))
        for name in runs[0]:
            print(f"{store.name:12}{name:34}{statistics.median(run[name] for run in runs):>8.0f}", flush=True)


if __name__ == "__main__":
    main()
