"""Measure dispatching, draining, waiting, idling and dying on each store that answers, beside a bare loop on it.

`python -m benchmarks.run` prints a table of medians for each: the library's figure, that of the bare loop, and the
one as a part of the other. What a bare loop does is in `benchmarks.bare`.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from .app import Linger, create_app, jobs, noop, noted, ping
from .bare import Bare
from .stores import STORES, Place, Store

LIMIT = 60.0
BODY = "x" * 150  # as long as the body of `noop`
AT_ONCE = 50  # jobs that the bare loop ends and takes in one step

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Amounts:
    """How many jobs are dispatched and drained, how often a waiting worker is woken, and how often one is killed."""

    jobs: int
    pings: int = 200
    deaths: int = 10


QUICK = Amounts(jobs=200, pings=5, deaths=1)


def measure_dispatch(folder: Path, amount: int) -> Figures:
    """Jobs a second, dispatched one by one and in thousands."""
    with _app(folder):
        one = _per_second(amount, lambda: [jobs.dispatch(noop()) for _ in range(amount)])
        many = _per_second(
            10 * amount,
            lambda: [jobs.dispatch_many([noop() for _ in range(1_000)]) for _ in range(amount // 100)],
        )
    return {"dispatch, one by one": one, "dispatch_many, 1,000 each": many}


def measure_drain(folder: Path, amount: int) -> Figures:
    """Jobs a second that one worker process runs, from its start to its end, its imports left out."""
    with _app(folder):
        jobs.dispatch_many([noop() for _ in range(amount - 1)])  # one is there
    with _worker(folder, "--stop-when-empty") as worker:
        assert worker.wait(LIMIT) == 0
    return {"drain, no-op jobs": amount / (noted(folder, "stopping")[0] - noted(folder, "started")[0])}


def measure_waiting(folder: Path, amount: int) -> Figures:
    """Milliseconds from the end of a dispatch to the begin of its job in a waiting worker, and what waiting costs."""
    sent = []
    with _app(folder), _worker(folder) as worker:
        _until(lambda: noted(folder, "started") != [])
        for count in range(1, amount + 1):
            time.sleep(0.03 + count % 7 / 1_000)
            jobs.dispatch(ping())
            sent.append(time.clock_gettime(time.CLOCK_MONOTONIC))
            _wait_for_pings(folder, count)
        share = _idle_share(psutil.Process(worker.pid))
    delays = sorted(1_000 * max(0.0, began - end) for began, end in zip(noted(folder, "pings"), sent, strict=True))
    return {
        "idle pick-up, p50 in ms": statistics.median(delays),
        "idle pick-up, p99 in ms": delays[int(0.99 * len(delays))],
        "idle command, % of a core": share,
    }


def measure_deaths(folder: Path, amount: int) -> Figures:
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


def measure_bare(bare: Bare, amount: int) -> Figures:
    """The same steps without jobs, with many of them ended and taken at once."""
    one = _per_second(amount, lambda: _insert(bare, [BODY], amount))
    _drain(bare, AT_ONCE)
    many = _per_second(10 * amount, lambda: _insert(bare, [BODY] * 1_000, amount // 100))
    drain = _per_second(10 * amount, lambda: _drain(bare, AT_ONCE))
    return {"dispatch, one by one": one, "dispatch_many, 1,000 each": many, "drain, no-op jobs": drain}


def _insert(bare: Bare, bodies: Sequence[str], times: int) -> None:
    for _ in range(times):
        bare.insert(bodies)


def _drain(bare: Bare, room: int) -> None:
    """End the last ones and take the next, until there are none."""
    taken = bare.exchange((), room)
    while taken:
        taken = bare.exchange(taken, room)


def _per_second(amount: int, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return amount / (time.perf_counter() - began)


@contextmanager
def _app(folder: Path) -> Iterator[None]:
    os.environ["BENCH_FOLDER"] = str(folder)
    app = create_app()
    with app.app_context():
        jobs.driver().prepare()
        jobs.dispatch(noop())  # opens the connection
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


def _wait_for_pings(folder: Path, amount: int) -> None:
    _until(lambda: len(noted(folder, "pings")) == amount)


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("The worker did not do it in time.")
        time.sleep(0.002)


def _idle_share(command: psutil.Process, seconds: float = 5.0) -> float:
    """How much of a core the supervisor and its worker use while they wait, in percent."""
    processes = [command, *command.children()]

    def used() -> float:
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    before = used()
    time.sleep(seconds)
    return 100 * (used() - before) / seconds


def _run(store: Store, amounts: Amounts) -> tuple[Figures, Figures]:
    ours: Figures = {}
    for measure, count in (
        (measure_dispatch, amounts.jobs),
        (measure_drain, amounts.jobs),
        (measure_waiting, amounts.pings),
        (measure_deaths, amounts.deaths),
    ):
        with tempfile.TemporaryDirectory() as folder, store.opened(Path(folder)) as place, _environment(place):
            ours |= measure(Path(folder), count)
    with tempfile.TemporaryDirectory() as folder, store.opened(Path(folder)) as place, closing(place.bare()) as bare:
        return ours, measure_bare(bare, amounts.jobs)


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
    parser.add_argument("--jobs", type=int, default=5_000, help="how many jobs a run dispatches (default 5000)")
    parser.add_argument("--store", choices=[store.name for store in STORES], action="append", help="only this one")
    parser.add_argument("--quick", action="store_true", help="only see that it runs: the figures mean nothing")
    arguments = parser.parse_args()
    amounts = QUICK if arguments.quick else Amounts(arguments.jobs)
    runs = 1 if arguments.quick else arguments.runs
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f};", end=" ")
    print(f"medians of {runs} runs; jobs a second where nothing else is said")
    for store in STORES:
        if arguments.store and store.name not in arguments.store:
            continue
        version = store.version()
        if version is None:
            print(f"\n{store.name}: no server answers")
            continue
        _print(f"{store.name} {version}", [_run(store, amounts) for _ in range(runs)])


def _print(title: str, results: Sequence[tuple[Figures, Figures]]) -> None:
    print(f"\n{title:32}{'flask_jobs':>12}{'bare loop':>12}{'of bare':>10}")
    for name in results[0][0]:
        ours = statistics.median(run[name] for run, _ in results)
        line = f"{name:32}{_shown(ours):>12}"
        if name in results[0][1]:
            bare = statistics.median(run[name] for _, run in results)
            line += f"{_shown(bare):>12}{ours / bare:>10.0%}"
        print(line, flush=True)


def _shown(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.2f}"


if __name__ == "__main__":
    main()
