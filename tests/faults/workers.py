"""Real workers for the app of `app.py`, and waiting for what they do."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import psutil
from flask import Flask

from flask_jobs import Job
from flask_jobs.cli import jobs_cli
from flask_jobs.driver import Driver
from flask_jobs.stored import FailedJob, StoredJob

from .app import create_app, db, jobs

APP = Path(__file__).parent / "app.py"

T = TypeVar("T")


def wait_for(condition: Callable[[], T], *, limit: float = 30) -> T:
    """What the condition says, as soon as it is true; fails if it is not within so many seconds."""
    deadline = time.monotonic() + limit
    while not (answer := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return answer


class Worker:
    """`flask jobs ...` as a process that leads a group of its own, and the log that it writes on stderr."""

    def __init__(self, command: list[str], *, environment: dict[str, str], folder: Path, log: Path) -> None:
        self._log = log
        with log.open("w") as stderr, log.with_suffix(".out").open("w") as stdout:
            self.process = subprocess.Popen(
                command,
                env=environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def output(self) -> str:
        return self._log.with_suffix(".out").read_text()

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    def lines(self, level: str) -> list[str]:
        """What the worker has logged at this level."""
        return [line for line in self.log.splitlines() if re.match(rf"\S+Z {level} ", line)]

    def started(self) -> Worker:
        """The worker, once it looks for jobs."""
        wait_for(lambda: "worker started" in self.log or not self.is_alive)
        assert self.is_alive, self.log
        return self

    def send(self, number: signal.Signals) -> None:
        """Signal the worker and whatever it has started, as a terminal does."""
        os.killpg(self.pid, number)

    def ended(self, limit: float = 60) -> int:
        """The exit code, once the worker has left."""
        return self.process.wait(limit)

    @property
    def children(self) -> list[int]:
        """The processes that it has started and that live."""
        if not self.is_alive:
            return []
        return [child.pid for child in psutil.Process(self.pid).children() if _lives(child)]

    def send_all(self, number: signal.Signals) -> None:
        """Signal the worker and all its children with their groups, as nothing but the end of a host does."""
        for pid in [self.pid, *self.children]:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, number)

    def end(self) -> None:
        """Kill what is left of it."""
        if self.is_alive:
            self.send_all(signal.SIGKILL)
            self.process.wait(10)


class Site:
    """One app in a folder of its own: in this process, and behind workers in others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = "database"
        self.connection: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.environment: dict[str, str] = {}
        self.workers: list[Worker] = []
        self._app: Flask | None = None

    @property
    def app(self) -> Flask:
        if self._app is None:
            self._app = create_app(str(self.folder), self._config)
            with self._app.app_context():
                db.create_all()
                jobs.driver().prepare()
        return self._app

    @contextmanager
    def driver(self) -> Iterator[Any]:
        """The driver of the app in this process."""
        with self.app.app_context():
            driver: Driver = jobs.driver()
            yield driver

    def dispatch(self, *dispatched: Job, **options: Any) -> list[str]:
        """Dispatch jobs together, and give their ids."""
        with self.app.app_context():
            return [one.id for one in jobs.dispatch_many(dispatched, **options)]

    def work(self, *arguments: str, **environment: str) -> Worker:
        """A worker without a supervisor, which is killed at the end of the test if it is still there.

        When it dies, nobody is left to settle for it, as when a whole host dies.
        """
        return self.flask("jobs", "work", "--in-process", "--sleep", "1", *arguments, **environment)

    def supervise(self, *arguments: str, **environment: str) -> Worker:
        """A supervisor with its workers, as in production; all are killed at the end of the test."""
        return self.flask("jobs", "work", "--sleep", "1", *arguments, **environment)

    def flask(self, *arguments: str, **environment: str) -> Worker:
        """`flask ...` as a process."""
        _ = self.app  # so that its tables are there
        command = [sys.executable, "-m", "flask", "--app", f"{APP}:create_app", *arguments]
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
        ours = {"FAULTS_FOLDER": str(self.folder), "FAULTS_CONFIG": json.dumps(self._config)}
        worker = Worker(
            command,
            environment={**kept, **ours, **self.environment, **environment},
            folder=self.folder,
            log=self.folder / f"log-{len(self.workers)}",
        )
        self.workers.append(worker)
        return worker

    def command(self, *arguments: str) -> str:
        """What `flask jobs ...` prints, run to its good end in this process."""
        result = self.app.test_cli_runner().invoke(jobs_cli, arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    def drain(self, *arguments: str) -> None:
        """Run in this process what is due."""
        self.command("work", "--stop-when-empty", *arguments)

    def open_gate(self, label: str, attempt: int) -> None:
        """Let that attempt of a gated job end."""
        (self.folder / f"{label}-{attempt}").touch()

    def ledger(self, event: str | None = None, **facts: Any) -> list[dict[str, Any]]:
        """What the jobs have written, so far as it has these facts."""
        path = self.folder / "ledger"
        # Reading may meet a line that is being written.
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith("\n")]
        wanted = facts if event is None else {"event": event, **facts}
        return [entry for entry in entries if wanted.items() <= entry.items()]

    def stored(self, job_id: str) -> StoredJob | None:
        """The job as it is stored, if it is."""
        with self.driver() as driver:
            found: StoredJob | None = driver.find(job_id)
            return found

    def failed(self) -> list[FailedJob]:
        """The failed jobs."""
        with self.driver() as driver:
            return list(driver.failed(limit=1_000))

    def sizes(self) -> tuple[int, int, int, int]:
        """How many jobs are ready, delayed, reserved and failed."""
        with self.driver() as driver:
            size = driver.size("default")
            return size.ready, size.delayed, size.reserved, driver.count_failed()

    def close(self) -> None:
        """End all workers and let go of the files."""
        for worker in self.workers:
            worker.end()
        self.renew()

    def renew(self) -> None:
        """Let go of the app in this process; the next use makes one by the settings as they are then."""
        if self._app is not None:
            with self._app.app_context():
                self._app.extensions["flask_jobs"].connections.close()
                for engine in db.engines.values():
                    engine.dispose()
        self._app = None

    @property
    def _config(self) -> dict[str, Any]:
        return {"JOBS_DEFAULT": self.name, "JOBS_CONNECTIONS": {self.name: self.connection}, **self.config}


def _lives(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:  # it has ended since it was listed
        return False
