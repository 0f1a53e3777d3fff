"""Measure the library, its peers and a bare loop on each store that answers, in turn, and print how they compare.

`python -m benchmarks.run` measures whatever is installed; `make bench` installs the peers before. Who is measured is
in `benchmarks.contenders`, and what in `benchmarks.workloads`. Three runs of everything take some 40 minutes on two
cores; what each contender takes of them is printed as it goes.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from .contenders import CONTENDERS, OURS, ROOT, Contender, SideError, install, reason, version
from .report import Row, Sheet, at_a_glance, table
from .stores import STORES, Store
from .workloads import MEASURES, Amounts, staged

QUICK = Amounts(jobs=3_000, sleeping=500, wakes=50, idle=2.0)
TINY = Amounts(jobs=50, sleeping=20, wakes=3, idle=0.2)

SHARED = ("redis", "psycopg")
"""What peers reach their stores by, which has versions of its own in their environment and in ours."""

MEANING = """\
Medians of the runs, and half of what lies between the least and the most. The first table and the last rows of each
other say how many times as good flask_jobs is: where less is better, that is the other's figure by its own.

Everything that is not said here is as each library has it by default, with log lines of warnings only.

- A process of RQ or of Celery without threads runs one job at a time, so 32 at once are 32 processes of RQ, and Celery
  is given threads for it. Of the others Huey has one process with 32 threads; flask_jobs and Dramatiq have 2 with 16
  threads; Procrastinate, PgQueuer, Taskiq and SAQ have 2 with 16 coroutines, which sleep without a thread.
- Dramatiq always has its 8 threads: with one it mostly waits. PgQueuer takes 10 jobs at a time and begins them
  together, for it has no other way to be quick; flask_jobs takes short jobs together, too, but runs them one by one.
- Huey, Celery and Taskiq forget a job before it runs, and lose it if the worker dies then. Huey flushes SQLite at each
  commit; flask_jobs and the bare loop do not.
- The calls of PgQueuer, Taskiq and SAQ are awaited one by one, on one event loop (uvloop). Where dispatch_many is
  missing the library has no such call.
- The bare loop ends and takes 50 bodies in one step, and promises nothing. The memory of flask_jobs is that of its
  worker and of the supervisor beside it."""


def main() -> None:
    """Measure, print and, if it is asked for, write."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that whatever is open is closed
    if arguments.install:
        install()
    began = time.monotonic()
    contenders, head = _present([each for each in CONTENDERS if each.name in arguments.only])
    parts = _printed(head)
    sheets: list[Sheet] = []
    for store in STORES:
        if store.name in arguments.store and any(store.name in each.stores for each in contenders):
            parts += _printed(_measure(store, contenders, arguments, sheets))
    if OURS in arguments.only:
        parts += _printed([_executor(arguments)])
    glance = _printed([at_a_glance(sheets)])
    parts += _printed([f"It took {(time.monotonic() - began) / 60:.0f} minutes; load at the end: {_load()}."])
    if arguments.write:
        Path(arguments.write).write_text("# How it compares\n\n" + "\n\n".join(glance + parts) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="how many runs the medians are of (default 3)")
    parser.add_argument("--store", action="append", choices=[store.name for store in STORES], help="only this one")
    parser.add_argument("--only", action="append", choices=[each.name for each in CONTENDERS], help="only this one")
    parser.add_argument("--measure", action="append", choices=list(MEASURES), help="only this one")
    parser.add_argument("--quick", action="store_const", dest="amounts", const=QUICK, default=Amounts())
    parser.add_argument("--tiny", action="store_const", dest="amounts", const=TINY, help="the figures mean nothing")
    parser.add_argument("--install", action="store_true", help="bring .venv-bench up to date before")
    parser.add_argument("--write", metavar="FILE", help="where to write what is printed")
    arguments = parser.parse_args()
    arguments.only = arguments.only or [each.name for each in CONTENDERS]
    arguments.store = arguments.store or [store.name for store in STORES]
    arguments.measure = arguments.measure or list(MEASURES)
    return arguments


def _present(contenders: Sequence[Contender]) -> tuple[list[Contender], list[str]]:
    """Those that can be imported, and what is to be said of how all is measured."""
    known: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for contender in contenders:
        if contender.peer == "bare" or contender.peer in known.keys() | left_out.keys():
            continue
        try:
            known[contender.peer] = version(contender.peer, contender.python)
        except SideError as error:
            left_out[contender.peer] = str(error)
    known |= {name: version(name, sys.executable) for name in SHARED}
    machine = f"{platform.platform()}, {os.cpu_count()} cores, {psutil.virtual_memory().total / 1e9:.0f} GB"
    call = shlex.join(["python", "-m", "benchmarks.run", *sys.argv[1:]])
    head = [
        f"`{call}` at {time.strftime('%Y-%m-%d %H:%M')}.",
        f"Machine: {machine}; Python {platform.python_version()}; load at the begin: {_load()}.",
        f"Versions: {', '.join(f'{name} {value}' for name, value in known.items())}.",
        MEANING,
    ]
    head += [f"Left out: {name} ({reason})." for name, reason in left_out.items()]
    if left_out:
        head.append("With --install they are brought to .venv-bench before.")
    return [each for each in contenders if each.peer not in left_out], head


def _measure(
    store: Store, contenders: Sequence[Contender], arguments: argparse.Namespace, sheets: list[Sheet]
) -> list[str]:
    """The table of one store, which is added to the sheets as well, and what is left out of it."""
    found = store.version()
    if found is None:
        return [f"{store.name}: no server answers."]
    sheet = Sheet(store.name, found, [Row(contender) for contender in contenders if store.name in contender.stores])
    sheets.append(sheet)
    failures = []
    for run in range(1, arguments.runs + 1):
        for row in sheet.rows:
            failures += _measure_once(store, row, arguments, run)
    return [table(sheet), *failures]


def _executor(arguments: argparse.Namespace) -> str:
    """What it prints, in a process of its own, for it takes CPU time only."""
    command = [sys.executable, "-m", "benchmarks.executor", "--jobs", str(arguments.amounts.jobs)]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "Left out: the executor alone (it took longer than 300 s)."
    return f"Left out: the executor alone ({reason(done.stderr)})." if done.returncode else done.stdout.strip()


def _measure_once(store: Store, row: Row, arguments: argparse.Namespace, run: int) -> list[str]:
    failures = []
    took: dict[str, float] = {}
    for name in arguments.measure:
        if name not in row.contender.measures:
            continue
        began = time.monotonic()
        try:
            with staged(row.contender, store) as stage:
                figures = MEASURES[name](stage, arguments.amounts)
            row.add(figures)
        except Exception as error:  # whatever happens to one contender, the others are still to be measured
            what = str(error) if isinstance(error, SideError) else f"{type(error).__name__}: {error}"
            failures.append(f"Left out: {name} of {row.contender.name} on {store.name} ({what}).")
        took[name] = time.monotonic() - began
    parts = ", ".join(f"{name} {seconds:.0f}" for name, seconds in took.items())
    told = f"run {run}, {store.name}, {row.contender.name}: {sum(took.values()):.0f} s ({parts})"
    print(told, *failures, file=sys.stderr, flush=True)
    return failures


def _printed(parts: list[str]) -> list[str]:
    """They are printed as soon as they are known, for a run is long."""
    for part in parts:
        print(f"\n{part}", flush=True)
    return parts


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    main()
