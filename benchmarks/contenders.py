"""Who is measured, on which stores, and by which Python."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from .stores import Place

ROOT = Path(__file__).parent.parent
PEERS = ROOT / ".venv-bench"
REQUIREMENTS = Path(__file__).parent / "requirements.txt"

OURS = "flask_jobs"
BARE = "bare loop"

ALONE = frozenset({"dispatch and drain"})
THROUGHPUT = ALONE | {"two processes"}
ALL = THROUGHPUT | {"sleeping", "idle"}


@dataclass(frozen=True, slots=True)
class Contender:
    """A peer in one of its shapes. `options` are settings of flask_jobs, {} in them the connection's name."""

    name: str
    peer: str
    stores: frozenset[str]
    option: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    measures: frozenset[str] = ALL

    @property
    def python(self) -> str:
        """Peers have an environment of their own."""
        return sys.executable if self.peer in ("flask_jobs", "bare") else str(PEERS / "bin" / "python")

    def environment(self, store: str, place: Place, folder: Path, recorded: Path) -> dict[str, str]:
        """What its processes run in."""
        connection = "redis" if store == "Redis" else "database"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("FLASK_", "PYTHON"))}
        return {
            **inherited,
            "PYTHONPATH": str(ROOT),
            "BENCH_STORE": store,
            "BENCH_URL": place.url,
            "BENCH_OPTION": self.option,
            "BENCH_FOLDER": str(folder),
            "BENCH_RECORD": str(recorded),
            **place.environment,
            **{name.format(connection): value for name, value in self.options.items()},
        }


class SideError(Exception):
    """A process of a peer failed, or took too long."""


def run_side(contender: Contender, environment: Mapping[str, str], *action: object, limit: float = 60) -> object:
    """What `benchmarks.side` prints."""
    command = [contender.python, "-m", "benchmarks.side", contender.peer, *map(str, action)]
    try:
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise SideError(f"{action[0]} took longer than {limit:.0f} s") from None
    if done.returncode:
        raise SideError(f"{action[0]}: {reason(done.stderr)}")
    return json.loads(done.stdout.splitlines()[-1])


def reason(printed: str) -> str:
    """The line that says most of what a failing process has printed: the last that tells an exception, or the last."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()] or ["it said nothing"]
    return next((line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception)\b", line)), lines[-1])


def version(library: str, python: str) -> str:
    """Which version of it this Python imports."""
    code = f"import importlib.metadata, {library}; print(importlib.metadata.version({library!r}))"
    try:
        done = subprocess.run([python, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SideError(str(error)) from error
    if done.returncode:
        raise SideError(reason(done.stderr))
    return done.stdout.strip()


def install(limit: float = 600) -> None:
    """Bring the peers' environment up to date: all at once or, if that fails, each as far as it can be."""
    if not (PEERS / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", str(PEERS)], check=False, timeout=limit)
    if _pip(["--requirement", str(REQUIREMENTS)], limit) is None:
        return
    for line in _requirements():
        failure = _pip(["--constraint", str(REQUIREMENTS), line], limit)
        if failure:
            print(f"{line} is not installed: {failure}", file=sys.stderr)


def _requirements() -> Iterable[str]:
    lines = REQUIREMENTS.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _pip(arguments: list[str], limit: float) -> str | None:
    """Install; why not, if it could not."""
    command = [str(PEERS / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=limit)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return reason(done.stderr) if done.returncode else None


def _on(*stores: str) -> frozenset[str]:
    return frozenset(stores)


EVERYWHERE = _on("Redis", "PostgreSQL", "SQLite", "MariaDB")

CONTENDERS = (
    Contender(OURS, "flask_jobs", EVERYWHERE),
    Contender("… JOBS_SIGN off", "flask_jobs", EVERYWHERE, options={"FLASK_JOBS_SIGN": "false"}, measures=ALONE),
    Contender(
        "… prefetch 1",
        "flask_jobs",
        EVERYWHERE,
        options={"FLASK_JOBS_CONNECTIONS__{}__prefetch": "1"},
        measures=ALONE,
    ),
    Contender(
        "… after_commit off",
        "flask_jobs",
        EVERYWHERE,
        options={"FLASK_JOBS_CONNECTIONS__{}__after_commit": "false"},
        measures=ALONE,
    ),
    Contender("RQ", "rq", _on("Redis"), measures=ALL - {"sleeping"}),  # 32 of them would only fork in turn
    Contender("RQ, SimpleWorker", "rq", _on("Redis"), option="rq.SimpleWorker"),
    Contender("Celery", "celery", _on("Redis"), measures=ALL - {"sleeping"}),
    Contender("Celery, solo", "celery", _on("Redis"), option="solo", measures=ALONE),
    Contender("Celery, threads", "celery", _on("Redis"), option="threads", measures=_on("sleeping")),
    Contender("Dramatiq", "dramatiq", _on("Redis")),
    Contender("Huey", "huey", _on("Redis", "PostgreSQL", "SQLite")),
    Contender("Taskiq", "taskiq", _on("Redis")),
    Contender("SAQ", "saq", _on("Redis", "PostgreSQL")),
    Contender("Procrastinate", "procrastinate", _on("PostgreSQL")),
    Contender("PgQueuer", "pgqueuer", _on("PostgreSQL")),
    Contender(BARE, "bare", EVERYWHERE, measures=THROUGHPUT),
)
