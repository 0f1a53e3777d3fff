"""What the examples of a page find around them: a small shop, a folder, and a console."""

from __future__ import annotations

import importlib.util
import logging
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from flask import Flask
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from flask_jobs import Jobs, job_dispatched
from flask_jobs.cli import jobs_cli

ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")

# A worker that a page has started runs in the background; this is how long it may take to have nothing to do.
CATCH_UP = 10.0


def open_shop(folder: Path) -> dict[str, Any]:
    """The names that every example may use: an app with a database, its jobs, one model, and one order."""
    db = SQLAlchemy(model_class=type("Base", (DeclarativeBase,), {}))
    jobs = Jobs()

    @jobs.model("order")
    class Order(db.Model):  # type: ignore[name-defined,misc]
        __tablename__ = "orders"
        id: Mapped[int] = mapped_column(primary_key=True)
        customer: Mapped[str] = mapped_column(default="Ada")
        paid: Mapped[bool] = mapped_column(default=False)

    app = Flask("shop", instance_path=str(folder / "instance"))
    app.config.update(SECRET_KEY="not a secret", SQLALCHEMY_DATABASE_URI=f"sqlite:///{folder / 'shop.sqlite'}")
    db.init_app(app)
    jobs.init_app(app)
    sent: list[str] = []
    return {
        "app": app,
        "db": db,
        "jobs": jobs,
        "Order": Order,
        "sent": sent,
        "send": sent.append,
        "render": lambda order: f"invoice of order {order.id}",
    }


class Stage:
    """The namespace and the folder of one page, and a console that runs `flask` in this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.module = ModuleType("page")
        self.names = vars(self.module)
        self.names.update(open_shop(folder), folder=folder)
        self.last_id = ""
        self.exit_code = 0
        self._worker: list[str] | None = None

    @property
    def app(self) -> Flask:
        """The app that the page tells to write into app.py, or the shop."""
        path = self.folder / "app.py"
        if not path.exists():
            return self.names["app"]  # type: ignore[no-any-return]
        module = sys.modules.get("app") or _imported(path)
        if "made" not in vars(module):
            vars(module)["made"] = module.create_app()
        return vars(module)["made"]  # type: ignore[no-any-return]

    def note(self, sender: Flask, *, job_id: str, **facts: object) -> None:
        """Remember the job that was dispatched last: `ID` means it."""
        self.last_id = job_id

    def run(self, command: str) -> str:
        """Run one command line and return what it printed."""
        words = shlex.split(command.replace("ID", self.last_id), comments=True)
        match words:
            case ["echo", "$?"]:
                return str(self.exit_code)
            case ["flask", *_, "run"]:
                return self._checked(self.app.name)
            case ["flask", "jobs", "work", *options] if not _ends(options):
                self._worker = options
                return self._catch_up()
            case ["flask", "jobs", *arguments]:
                self._catch_up()
                return self._flask(arguments)
            case ["curl", "-X", "POST", url]:
                return self._post(url) + self._catch_up()
            case ["pytest", *arguments]:
                return self._pytest(arguments)
        raise AssertionError(f"the console of the examples does not know {command!r}")

    def _flask(self, arguments: list[str]) -> str:
        with self.app.app_context():  # the page's own may be that of the shop
            result = self.app.test_cli_runner().invoke(jobs_cli, arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        self.exit_code = result.exit_code
        if "retry" in arguments and (found := ID.findall(result.stdout)):
            self.last_id = found[-1]
        return result.output

    def _catch_up(self) -> str:
        """Let the worker that the page has started do what is due, and what waits for its next attempt."""
        if self._worker is None:
            return ""
        said = self._flask(["work", "--stop-when-empty", *self._worker])
        ends = time.monotonic() + CATCH_UP
        while self._has_retries() and time.monotonic() < ends:
            time.sleep(0.05)
            said += self._flask(["work", "--stop-when-empty", *self._worker])
        return said

    def _has_retries(self) -> bool:
        with self.app.app_context():
            driver = self.app.extensions["flask_jobs"].connections.driver()
            return any(job.history for queue in driver.queues() for job in driver.jobs(queue))

    def _post(self, url: str) -> str:
        answer = self.app.test_client().post(url.removeprefix("http://127.0.0.1:5000"))
        assert answer.status_code < 400, answer.text
        return answer.text

    def _pytest(self, arguments: list[str]) -> str:
        plain = ["-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "."]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *plain, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.exit_code = done.returncode
        return done.stdout + done.stderr

    def _checked(self, said: str) -> str:
        self.exit_code = 0
        return said


@contextmanager
def set_stage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """A stage in this folder; what its examples have opened is closed behind it."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "110")
    # pytest listens at the root logger; without it the worker writes its lines as in a plain app.
    monkeypatch.setattr(logging.getLogger("flask_jobs"), "propagate", False)
    stage = Stage(folder)
    monkeypatch.setitem(sys.modules, "page", stage.module)
    with job_dispatched.connected_to(stage.note), stage.names["app"].app_context():
        db, order = stage.names["db"], stage.names["Order"]()
        db.create_all()
        db.session.add(order)
        db.session.commit()
        stage.names["order"] = order
        yield stage
        _close(stage.names["app"], db)
    module = sys.modules.pop("app", None)
    for value in (*stage.names.values(), *(vars(module).values() if module else ())):
        if isinstance(value, Flask):
            _close(value)
    # Classes may be remembered elsewhere, and through their methods they would keep all that the page has made.
    stage.names.clear()


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("app", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["app"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _ends(options: list[str]) -> bool:
    return not {"--once", "--stop-when-empty", "--max-jobs", "--max-time"}.isdisjoint(options)


def _close(app: Flask, db: Any = None) -> None:
    if "flask_jobs" in app.extensions:
        app.extensions["flask_jobs"].connections.close()
    if db is not None:
        db.session.remove()
        for engine in db.engines.values():
            engine.dispose()
