"""The app that goes through the faults. Its jobs write into the ledger what happens to them."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from blinker import NamedSignal
from flask import Flask, current_app

from flask_jobs import (
    ConnectionLost,
    Job,
    Jobs,
    Limit,
    RateLimited,
    WithoutOverlapping,
    current_job,
    job_processing,
    job_released,
    lease_expired,
    settlement_lost,
    worker_started,
)
from tests.chaos.ledger import Ledger

jobs = Jobs()


def ledger() -> Ledger:
    """That of the current app."""
    found: Ledger = current_app.extensions["chaos"]
    return found


class Labelled(Job):
    """Sleeps for so many seconds. Its label tells it apart from all others, in the ledger and after a rerun."""

    # More than any job loses to workers that are killed, so that only poison fails.
    max_attempts = 50
    backoff = 0

    def __init__(self, label: str, seconds: float = 0.0) -> None:
        self.label = label
        self.seconds = seconds

    def handle(self) -> None:
        about = {"label": self.label, "id": current_job.id, "attempt": current_job.attempt}
        ledger().note("begin", **about)
        facts = self.work() or {}
        ledger().note("end", **about, **facts)

    def work(self) -> dict[str, Any] | None:
        """What the job is for; may tell something for its last line."""
        time.sleep(self.seconds)
        return None

    def failed(self, error: BaseException) -> None:
        ledger().note("hook", label=self.label, error=type(error).__name__)


@jobs.register("chaos.plain")
class Plain(Labelled):
    """Also delayed, in chains and in batches."""


@jobs.register("chaos.unique")
class Unique(Labelled):
    """One of a key at a time, from its push to its end."""

    unique = True

    def __init__(self, label: str, key: str) -> None:
        super().__init__(label, 0.003)
        self.key = key

    def unique_id(self) -> str:
        return self.key


@jobs.limiter("chaos")
def limit(_job: Job) -> Limit:
    return Limit.every(1, 60)


@jobs.register("chaos.limited")
class Limited(Labelled):
    def middleware(self) -> list[Any]:
        return [RateLimited("chaos")]


@jobs.register("chaos.exclusive")
class Exclusive(Labelled):
    """One of a key runs at a time."""

    def __init__(self, label: str, key: str) -> None:
        super().__init__(label, 0.01)
        self.key = key

    def middleware(self) -> list[Any]:
        return [WithoutOverlapping(self.key, release_after=0.1)]


@jobs.register("chaos.poison")
class Poison(Labelled):
    """Kills the process that runs it."""

    def __init__(self, label: str, attempts: int) -> None:
        super().__init__(label)
        self.max_attempts = attempts

    def work(self) -> None:
        ledger().note("fault", kind="poison", pids=[os.getpid()])
        os.kill(os.getpid(), signal.SIGKILL)


@jobs.register("chaos.callback")
class Callback(Labelled):
    """Tells how it finds its batch."""

    def work(self) -> dict[str, Any]:
        assert current_job.batch is not None
        state = current_job.batch.state()
        names = ("total", "pending", "done", "failed", "skipped")
        return {"counts": {name: getattr(state, name) for name in names}}


def note_worker(app: Flask, **_: Any) -> None:
    app.extensions["chaos"].note("worker")


def note_taken(app: Flask, *, job: Any, job_id: str, attempt: int, **_: Any) -> None:
    app.extensions["chaos"].note("taken", label=job.label, id=job_id, attempt=attempt)


def note_reclaimed(app: Flask, *, job_id: str, charged: bool, **_: Any) -> None:
    app.extensions["chaos"].note("reclaimed", id=job_id, charged=charged)


def note_broken(app: Flask, *, job_id: str, attempt: int, error: BaseException | None, **_: Any) -> None:
    if isinstance(error, ConnectionLost):
        app.extensions["chaos"].note("broken", id=job_id, attempt=attempt)


def note_lost(app: Flask, *, job_id: str, reason: str, **_: Any) -> None:
    app.extensions["chaos"].note("settlement-lost", id=job_id, reason=reason)


RECEIVERS: list[tuple[NamedSignal, Callable[..., None]]] = [
    (worker_started, note_worker),
    (job_processing, note_taken),
    (lease_expired, note_reclaimed),
    (job_released, note_broken),
    (settlement_lost, note_lost),
]


def create_app(folder: str | None = None, connection: dict[str, Any] | None = None) -> Flask:
    """The app in a folder of its own; workers are told of it by their environment."""
    place = Path(folder or os.environ["CHAOS_FOLDER"])
    app = Flask("chaos", instance_path=str(place))
    app.config.update(
        SECRET_KEY="not a secret",
        JOBS_DEFAULT="chaos",
        JOBS_CONNECTIONS={"chaos": connection or json.loads(os.environ["CHAOS_CONNECTION"])},
    )
    app.extensions["chaos"] = Ledger(place / "ledger")
    jobs.init_app(app)
    for told, receiver in RECEIVERS:
        told.connect(receiver, app)
    return app
