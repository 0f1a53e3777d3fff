"""The app that is measured. What `Linger` and its workers do, they note in the folder BENCH_FOLDER."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from flask import Flask

from flask_jobs import Job, Jobs, worker_started

from .record import perform

jobs = Jobs()


@jobs.task("bench.job")
def job(number: int, seconds: float) -> None:
    """Do what everyone's job does."""
    perform(number, seconds)


@jobs.task("bench.nothing")
def nothing(number: int, seconds: float) -> None:
    """Do nothing, with the same arguments."""


@jobs.register("bench.linger")
class Linger(Job):
    """Note when it began and where, and stay until its process ends."""

    max_attempts = 1_000
    backoff = 0

    def handle(self) -> None:
        (Path(os.environ["BENCH_FOLDER"]) / "pid").write_text(str(os.getpid()))
        note("lingers")
        time.sleep(600)


def create_app(**settings: object) -> Flask:
    """The app in the folder BENCH_FOLDER, with its jobs where the environment says. Only warnings are logged."""
    app = Flask("bench", instance_path=os.environ["BENCH_FOLDER"])
    app.config["SECRET_KEY"] = "not a secret"
    app.config.from_prefixed_env()
    app.config.update(settings)
    jobs.init_app(app)
    logging.getLogger("flask_jobs").setLevel(logging.WARNING)
    worker_started.connect(_started, app)
    return app


def note(name: str) -> None:
    """Append the present instant to a file of the folder."""
    with (Path(os.environ["BENCH_FOLDER"]) / name).open("a") as file:
        file.write(f"{time.clock_gettime(time.CLOCK_MONOTONIC)}\n")


def noted(folder: Path, name: str) -> list[float]:
    """The instants in a file of the folder."""
    path = folder / name
    return [float(line) for line in path.read_text().split()] if path.exists() else []


def _started(_app: Flask, **_facts: object) -> None:
    note("started")
