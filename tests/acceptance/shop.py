"""The example shop as its users run it: web server, commands and workers, each a process of its own."""

from __future__ import annotations

import mailbox
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from example_app import create_app, payments
from example_app.extensions import db

ROOT = Path(__file__).resolve().parents[2]
ORDER = {"name": "Ada Holm", "email": "ada@mail.example", "country": "SE", "quantities": {"tea": 2}}


@dataclass
class Shop:
    """A shop in a folder: this process is its web server, its commands run as processes."""

    folder: Path
    settings: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with pytest.MonkeyPatch.context() as environment:
            for name, value in self.environment().items():
                environment.setenv(name, value)
            self.app = create_app()

    def environment(self) -> dict[str, str]:
        """What the shop's processes are told."""
        return {
            "FLASK_SHOP_FOLDER": str(self.folder),
            "FLASK_SECRET_KEY": "acceptance",
            "FLASK_JOBS_CONNECTIONS__database__retry_after": "2",
        } | self.settings

    def close(self) -> None:
        """Close the connections of this process."""
        self.app.extensions["flask_jobs"].connections.close()
        with self.app.app_context():
            db.engine.dispose()

    def order(self, **change: object) -> int:
        answer = self.app.test_client().post("/orders", json=ORDER | change)
        assert answer.status_code == 201
        return int(answer.json["id"])

    def orders(self) -> list[dict[str, Any]]:
        answer = self.app.test_client().get("/", headers={"Accept": "application/json"})
        return list(answer.json)

    def start(self, *command: str, **settings: str) -> subprocess.Popen[str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FLASK_")}
        return subprocess.Popen(
            [sys.executable, "-m", "flask", "--app", "example_app", *command],
            env=kept | self.environment() | settings,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def flask(self, *command: str, code: int = 0) -> str:
        process = self.start(*command)
        out, err = process.communicate(timeout=60)
        assert process.returncode == code, err
        return out

    def documents(self, kind: str = "invoices") -> list[str]:
        return sorted(path.name for path in (self.folder / kind).glob("*"))

    def charges(self) -> list[str]:
        """The key of each charge that was made, oldest first."""
        with self.app.app_context():
            return [str(charge["key"]) for charge in payments.charges()]

    def recipients(self) -> list[str]:
        with closing(mailbox.mbox(self.folder / "mailbox.mbox")) as box:
            return [str(message["To"]) for message in box]


def kill(process: subprocess.Popen[str]) -> None:
    """End the command and its workers at once, as the end of a host does, and wait for its last word."""
    workers = psutil.Process(process.pid).children() if process.poll() is None else []
    for victim in [process, *workers]:
        victim.kill()
    process.communicate()


def wait_for(condition: Callable[[], object], what: str, limit: float = 30) -> None:
    latest = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < latest, f"not in time: {what}"
        time.sleep(0.02)
