"""Measure dispatching, draining, waiting and idling on SQLite, beside a bare sqlite3 loop.

`python -m benchmarks.run` prints a table of medians. The bare loop does the least that a queue in SQLite can do: the
same rows, the same journal, one transaction for each step, and neither jobs nor an app around it.
"""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from .app import create_app, jobs, noop, noted, ping

LIMIT = 60.0
BODY = "x" * 150  # as long as the body of `noop`

Figures = dict[str, float]


def measure_dispatch(folder: Path, amount: int) -> Figures:
    """Jobs a second, dispatched one by one and in thousands."""
    with _app(folder):
        jobs.dispatch(noop())  # makes the tables
        jobs.driver().prepare()
        one = _per_second(amount, lambda: [jobs.dispatch(noop()) for _ in range(amount)])
        many = _per_second(
            10 * amount,
            lambda: [jobs.dispatch_many([noop() for _ in range(1_000)]) for _ in range(amount // 100)],
        )
    return {"dispatch, one by one": one, "dispatch_many, 1,000 each": many}


def measure_drain(folder: Path, amount: int) -> Figures:
    """Jobs a second that one worker process runs, from its start to its end, its imports left out."""
    with _app(folder):
        jobs.dispatch_many([noop() for _ in range(amount)])
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
        share = _idle_share(worker.pid)
    delays = sorted(1_000 * max(0.0, began - end) for began, end in zip(noted(folder, "pings"), sent, strict=True))
    return {
        "idle pick-up, p50 in ms": statistics.median(delays),
        "idle pick-up, p99 in ms": delays[int(0.99 * len(delays))],
        "idle worker, % of a core": share,
    }


def measure_bare(folder: Path, amount: int) -> Figures:
    """The same steps as bare SQL."""
    with closing(sqlite3.connect(folder / "bare.sqlite", isolation_level=None)) as connection:
        connection.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
            "CREATE TABLE job (seq INTEGER PRIMARY KEY, state INT, at REAL, body TEXT);"
            "CREATE INDEX job_next ON job (state, at, seq);"
        )
        insert = "INSERT INTO job (state, at, body) VALUES (0, 0, ?)"
        one = _per_second(amount, lambda: [connection.execute(insert, (BODY,)) for _ in range(amount)])
        many = _per_second(10 * amount, lambda: _insert_many(connection, insert, amount // 100))
        drain = _per_second(amount, lambda: _drain(connection, amount))
    return {"dispatch, one by one": one, "dispatch_many, 1,000 each": many, "drain, no-op jobs": drain}


def _insert_many(connection: sqlite3.Connection, insert: str, times: int) -> None:
    for _ in range(times):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(insert, [(BODY,)] * 1_000)
        connection.execute("COMMIT")


def _drain(connection: sqlite3.Connection, amount: int) -> None:
    """Delete the last one and reserve the next, in one transaction each."""
    done = -1
    for _ in range(amount):
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM job WHERE seq = ?", (done,))
        done, _body = connection.execute(
            "SELECT seq, body FROM job WHERE state = 0 ORDER BY at, seq LIMIT 1"
        ).fetchone()
        connection.execute("UPDATE job SET state = 2, at = 1 WHERE seq = ?", (done,))
        connection.execute("COMMIT")


def _per_second(amount: int, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return amount / (time.perf_counter() - began)


@contextmanager
def _app(folder: Path) -> Iterator[None]:
    os.environ["BENCH_FOLDER"] = str(folder)
    app = create_app()
    with app.app_context():
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


def _idle_share(pid: int, seconds: float = 5.0) -> float:
    """How much of a core the process uses while it waits, in percent. Known on Linux alone."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return float("nan")

    def used() -> int:
        return sum(map(int, stat.read_text().rpartition(")")[2].split()[11:13]))

    before = used()
    time.sleep(seconds)
    return 100 * (used() - before) / os.sysconf("SC_CLK_TCK") / seconds


def _run(amount: int) -> tuple[Figures, Figures]:
    ours: Figures = {}
    for measure, count in ((measure_dispatch, amount), (measure_drain, amount), (measure_waiting, 200)):
        with tempfile.TemporaryDirectory() as folder:
            ours |= measure(Path(folder), count)
    with tempfile.TemporaryDirectory() as folder:
        return ours, measure_bare(Path(folder), amount)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="how many runs the medians are of (default 3)")
    parser.add_argument("--jobs", type=int, default=5_000, help="how many jobs a run dispatches (default 5000)")
    arguments = parser.parse_args()
    results = [_run(arguments.jobs) for _ in range(arguments.runs)]
    print(f"SQLite {sqlite3.sqlite_version}, Python {platform.python_version()}, {os.cpu_count()} cores,", end=" ")
    print(f"load {os.getloadavg()[0]:.1f}; medians of {arguments.runs} runs; jobs a second where nothing else is said")
    print(f"{'':28}{'flask_jobs':>12}{'bare sqlite3':>14}")
    for name in results[0][0]:
        ours = statistics.median(run[name] for run, _ in results)
        bare = statistics.median(run[name] for _, run in results) if name in results[0][1] else None
        print(f"{name:28}{_shown(ours):>12}{'' if bare is None else _shown(bare):>14}")


def _shown(figure: float) -> str:
    return f"{figure:,.0f}" if figure >= 100 else f"{figure:.2f}"


if __name__ == "__main__":
    main()
