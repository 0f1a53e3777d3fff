"""Jobs that are hard on their process: they hang in every way, end it, fill it, or die before they have begun."""

from __future__ import annotations

import collections
import contextlib
import itertools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
import sqlalchemy as sa
from flask import current_app, g

from flask_jobs import Job, JobTimeout, current_job

from .app import Row, db, jobs, note, noted

_kept: list[bytearray] = []


def hold_the_interpreter(seconds: float) -> None:
    """Spend so long in one call, which neither gives the interpreter's lock away nor looks at signals."""
    ends = time.monotonic() + seconds
    # Not a line of it is Python, and only between those does the interpreter look at anything else.
    collections.deque(itertools.takewhile(ends.__gt__, iter(time.monotonic, None)), maxlen=0)


def sleep_on(seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        time.sleep(0.01)


def swallow(kind: type[BaseException], seconds: float) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        with contextlib.suppress(kind):
            time.sleep(0.01)


def wait_for_a_row() -> None:
    db.session.execute(sa.update(Row).where(Row.id == 1).values(number=Row.number + 1))
    db.session.commit()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def have_all_paused() -> None:
    """Have the supervisor tell its workers to pause, and be a short job all the same."""
    os.kill(os.getppid(), signal.SIGUSR2)
    time.sleep(0.03)


WAYS: dict[str, Callable[[float], None]] = {
    "sleep": sleep_on,
    "sleep in one": time.sleep,
    "hold": hold_the_interpreter,
    "lock": lambda _: wait_for_a_row(),
    "swallow errors": lambda seconds: swallow(Exception, seconds),
    "swallow all": lambda seconds: swallow(BaseException, seconds),
    "sys.exit": lambda _: sys.exit(0),
    "os._exit": lambda _: os._exit(3),
    "die": lambda _: die(),
    "pause": lambda _: have_all_paused(),
}


@jobs.register("faults.hard")
class Hard(Job):
    """Spends its first so many attempts in the given way, and ends well in later ones."""

    backoff = 0

    def __init__(self, way: str, *, seconds: float = 30, tries: int = 3, limit: float = 60, bad: int = 9) -> None:
        self.way = way
        self.seconds = seconds
        self.max_attempts = tries
        self.timeout = limit
        self.bad = bad

    def handle(self) -> None:
        with noted(label=self.way):
            if current_job.attempt <= self.bad:
                WAYS[self.way](self.seconds)

    def failed(self, error: BaseException) -> None:
        note("hook", way=self.way, tries=self.max_attempts, error=type(error).__name__, message=str(error))


@jobs.register("faults.hard-to-put-off")
class HardToPutOff(Job):
    """Fails, and spends in the given way what it is asked for its pause: at once, or when it has failed."""

    max_attempts = 1
    timeout = 1

    def __init__(self, way: str, *, when_failed: bool = False) -> None:
        self.way = way
        self.when_failed = when_failed
        self.has_failed = False

    def handle(self) -> None:
        note("body", way=self.way)
        self.has_failed = True
        raise ValueError("as told")

    def backoff(self, attempt: int) -> float:
        if self.has_failed or not self.when_failed:
            WAYS[self.way](60)
        return 1


def fuse(name: str) -> None:
    """Let the process die here, once, if the file of this name is there."""
    path = Path(current_app.instance_path) / name
    if path.exists():
        path.unlink()
        note("fused", name=name)
        die()


@dataclass(frozen=True)
class Fused:
    """A value that is dangerous to load."""

    name: str


def load_fused(name: str) -> Fused:
    fuse(name)
    return Fused(name)


jobs.codec(Fused, "faults.fused", lambda fused: fused.name, load_fused)


class Fuse:
    """A middleware that is dangerous to pass."""

    def __init__(self, name: str) -> None:
        self.name = name

    def handle(self, job: Job, call_next: Callable[[], None]) -> None:
        fuse(self.name)
        call_next()


@jobs.register("faults.risky")
class Risky(Job):
    """Its worker may die while it is loaded, in its middleware, or behind it."""

    max_attempts = 1

    def __init__(self) -> None:
        self.value = Fused("loading")

    def middleware(self) -> list[Any]:
        return [Fuse("middleware")]

    def handle(self) -> None:
        with noted(label="risky"):
            pass


@dataclass(frozen=True)
class Heavy:
    """A value that takes so many seconds to load."""

    seconds: float


def load_heavy(seconds: float) -> Heavy:
    time.sleep(seconds)
    return Heavy(seconds)


jobs.codec(Heavy, "faults.heavy", lambda heavy: heavy.seconds, load_heavy)


@jobs.register("faults.lifting")
class Lifting(Job):
    """Takes long to load, and has the time."""

    timeout = 4  # not more, for some tests have short leases and no renewal

    def __init__(self, seconds: float) -> None:
        self.value = Heavy(seconds)

    def handle(self) -> None:
        with noted(label="lifting"):
            pass


@jobs.register("faults.uninterrupted")
class Uninterrupted(Job):
    """Takes no interruption at all, and meets none."""

    max_interruptions = 0

    def handle(self) -> None:
        with noted(label="uninterrupted"):
            pass


@jobs.register("faults.fails-at-a-gate")
class FailsAtAGate(Job):
    """Fails when the gate is open, and may take its worker along in its hook."""

    max_attempts = 1

    def handle(self) -> None:
        gate = Path(current_app.instance_path) / "gate"
        with noted(label="fails at a gate"):
            while not gate.exists():
                time.sleep(0.01)
            raise ValueError("as told")

    def failed(self, error: BaseException) -> None:
        note("hook", error=type(error).__name__, message=str(error))
        fuse("hook")


@jobs.register("faults.slow-hook")
class SlowHook(Job):
    """Ends its worker, and takes its time in its hook."""

    max_attempts = 1

    def __init__(self, seconds: float, *, limit: float) -> None:
        self.seconds = seconds
        self.timeout = limit

    def handle(self) -> None:
        die()

    def failed(self, error: BaseException) -> None:
        note("hook begins", seconds=self.seconds)
        cut = ""
        try:
            sleep_on(self.seconds)
        except JobTimeout as late:
            cut = str(late)
        note("hook", seconds=self.seconds, cut=cut)


@jobs.register("faults.dies-again")
class DiesAgain(Job):
    """Ends its worker together with all others of its kind, and then each worker that its hook is called in."""

    max_attempts = 1

    def __init__(self, number: int) -> None:
        self.number = number

    def handle(self) -> None:
        with noted(number=self.number):
            while not (Path(current_app.instance_path) / "die").exists():
                time.sleep(0.01)
            die()

    def failed(self, error: BaseException) -> None:
        note("hook", number=self.number)
        die()


@jobs.register("faults.ballast")
class Ballast(Job):
    """Carries a large payload, and may keep so many megabytes for good."""

    def __init__(self, text: str, keep: int = 0) -> None:
        self.text = text
        self.keep = keep

    def handle(self) -> None:
        with noted(keep=self.keep):
            if self.keep:
                _kept.append(bytearray(b"x") * (self.keep * 1_048_576))
                time.sleep(1)  # a worker looks once a second how large it is


@jobs.register("faults.compare")
class Compare(Job):
    """Asks the database and Redis for its own number, over connections that the app's factory has opened."""

    def __init__(self, number: int) -> None:
        self.number = number

    def handle(self) -> None:
        # It takes a moment, so that no worker runs all of them, and answers on their way meet.
        asked = sa.text("SELECT CAST(:number AS integer), pg_backend_pid() FROM pg_sleep(0.02)")
        found, backend = db.session.execute(asked, {"number": self.number}).one()
        client: redis.Redis = current_app.extensions["faults_redis"]
        key = f"{current_app.config['FAULTS_PREFIX']}{self.number}"
        client.set(key, self.number, ex=60)
        read = int(client.get(key) or -1)
        with noted(number=self.number, answers=[found, read], backend=backend, client=client.client_id()):
            pass


@jobs.register("faults.beside-others")
class BesideOthers(Job):
    """Tells what it stands in, before and after others have run beside it in other threads."""

    def __init__(self, label: str) -> None:
        self.label = label

    def handle(self) -> None:
        g.label = self.label
        row = Row(text=self.label)
        db.session.add(row)
        note("in", label=self.label, thread=threading.get_ident(), context=id(g._get_current_object()))
        gate = Path(current_app.instance_path) / "beside"
        while not gate.exists():
            time.sleep(0.01)
        new = [one.text for one in db.session.new]
        note("out", label=self.label, job=current_job.id, g=g.label, new=new, session=id(db.session()))
