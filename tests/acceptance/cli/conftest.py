from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import Result

from flask_jobs.cli import jobs_cli
from flask_jobs.driver import Driver
from flask_jobs.envelope import Counters, ErrorRecord, Fail, Reservation, Room
from flask_jobs.ids import new_id

HERE = Path(__file__).parent


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cli_shop", HERE / "shop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["cli_shop"] = module
    spec.loader.exec_module(module)
    return module


class Shop:
    """The shop in a folder of its own: as an app in this process, and behind `flask jobs` in others."""

    def __init__(self, module: ModuleType, folder: Path) -> None:
        self.module = module
        self.folder = folder
        self.config: dict[str, Any] = {}
        self.environment = {"COLUMNS": "80"}
        self._app: Any = None

    @property
    def app(self) -> Any:
        if self._app is None:
            self._app = self.module.create_app(
                str(self.folder),
                {"SECRET_KEY": "not a secret", "SQLALCHEMY_DATABASE_URI": "sqlite:///shop.sqlite", **self.config},
            )
        return self._app

    @contextmanager
    def driver(self, connection: str | None = None) -> Iterator[Driver]:
        with self.app.app_context():
            yield self.module.jobs.driver(connection)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "flask", "--app", f"{HERE / 'shop.py'}:create_app", "jobs", *arguments]

    @property
    def surroundings(self) -> dict[str, str]:
        """The environment of a command in another process: nothing of this one's but what is needed to start."""
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
        ours = {"SHOP_INSTANCE": str(self.folder), "SHOP_CONFIG": json.dumps(self.config)}
        return {**kept, **ours, **self.environment}

    def flask(self, *arguments: str, stdin: Any = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
        """`flask jobs ...` in a process of its own, to its end."""
        return subprocess.run(
            self.command(*arguments),
            env=self.surroundings,
            cwd=self.folder,
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @contextmanager
    def running(self, *arguments: str, stdin: Any = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
        """`flask jobs ...` in a process of its own, which is ended with the block if it has not ended before."""
        with subprocess.Popen(
            self.command(*arguments),
            env=self.surroundings,
            cwd=self.folder,
            # A shell that runs the tests in the background lets them ignore Ctrl-C, and what they start as well.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def invoke(self, *arguments: str) -> Result:
        """`flask jobs ...` in this process."""
        return self.app.test_cli_runner().invoke(jobs_cli, list(arguments))  # type: ignore[no-any-return]

    def json(self, *arguments: str, exit_code: int = 0) -> Any:
        """The document that a command prints with --json, in this process."""
        result = self.invoke(*arguments, "--json")
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)

    def dispatch(self, job: Any, **options: Any) -> str:
        with self.app.app_context():
            return str(self.module.jobs.dispatch(job, **options).id)

    def reserve(self, queue: str = "default", count: int = 1) -> Sequence[Reservation]:
        """Take jobs as a worker would."""
        with self.driver() as driver:
            room = Room(limit=count, box=1.0, means={"shop.note": 0.0})
            return driver.pop([queue], new_id(), room).reservations

    def fail(self, count: int = 1, *, queue: str = "default", text: str = "x", error: str = "broken") -> list[str]:
        """So many failed jobs, oldest first."""
        with self.app.app_context():
            notes = [self.module.Note(text, token="secret") for _ in range(count)]
            ids = [dispatched.id for dispatched in self.module.jobs.dispatch_many(notes, queue=queue)]
            driver = self.module.jobs.driver()
            while reserved := self.reserve(queue, 1_000):
                record = ErrorRecord("builtins.ValueError", error, f"Traceback\nValueError: {error}")
                driver.settle([Fail(each, record, Counters(attempts=1, errors=1)) for each in reserved])
            return ids

    @property
    def notes(self) -> list[str]:
        """What the jobs have written."""
        path = self.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture(scope="session")
def shop_module() -> ModuleType:
    return _load()


@pytest.fixture
def shop(shop_module: ModuleType, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(shop_module, tmp_path)
    yield shop
    if shop._app is not None:
        with shop.app.app_context():
            shop.app.extensions["flask_jobs"].connections.close()
            for engine in shop_module.db.engines.values():
                engine.dispose()
