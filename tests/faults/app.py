"""The app whose workers are killed, frozen and stopped. Its jobs write a line into a ledger when they begin and end."""

from __future__ import annotations

import contextlib
import contextvars
import decimal
import hashlib
import json
import logging.config
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import click
import redis
import sqlalchemy as sa
from flask import Flask, current_app, g
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from flask_jobs import (
    ConnectionLost,
    Job,
    Jobs,
    Limit,
    RateLimited,
    ThrottlesExceptions,
    WithoutOverlapping,
    current_job,
)
from flask_jobs.ids import new_id
from flask_jobs.worker.assignment import VARIABLE


class Base(DeclarativeBase):
    """All models."""


db = SQLAlchemy(model_class=Base)
jobs = Jobs()
tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")


class Row(db.Model):  # type: ignore[name-defined,misc]
    id: Mapped[int] = mapped_column(primary_key=True)
    text: Mapped[str] = mapped_column(unique=True)
    number: Mapped[int] = mapped_column(default=0)


def note(event: str, **facts: Any) -> None:
    """Append one line to the ledger, whole or not at all."""
    line = json.dumps({"event": event, "at": time.time(), "pid": os.getpid(), **facts}) + "\n"
    ledger = os.open(Path(current_app.instance_path) / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(ledger, line.encode())
    finally:
        os.close(ledger)


@contextmanager
def noted(**facts: Any) -> Iterator[None]:
    """Begin and end of the current attempt in the ledger; an attempt that raises has no end."""
    about = {"job": current_job.id, "attempt": current_job.attempt, **facts}
    note("begin", **about)
    yield
    note("end", **about)
    arm(facts.get("label"))


_left: Iterator[int] | None = None
"""How many statements may follow before this process kills itself; none yet, before the job of that label has ended."""


def arm(label: object) -> None:
    """Let the statements be counted if this is the job after whose end the process is to die."""
    global _left
    wanted, _, statements = os.environ.get("FAULTS_DIE_AFTER", "").partition(" ")
    if statements and label == wanted:
        _left = iter(range(int(statements)))


@sa.event.listens_for(sa.Pool, "connect")
def watch(connection: object, _record: object) -> None:
    """Have SQLite tell of each statement before it begins."""
    if "FAULTS_DIE_AFTER" in os.environ and isinstance(connection, sqlite3.Connection):
        connection.set_trace_callback(die)


def die(_statement: str) -> None:
    if _left is not None and next(_left, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)


@jobs.register("faults.brief")
class Brief(Job):
    def __init__(self, label: str = "", seconds: float = 0) -> None:
        self.label = label
        self.seconds = seconds

    def handle(self) -> None:
        with noted(label=self.label):
            time.sleep(self.seconds)


@jobs.register("faults.short")
class Short(Job):
    """Takes a millisecond, and fails as often as it is told."""

    backoff = 0.1

    def __init__(self, fails: int) -> None:
        self.fails = fails

    def handle(self) -> None:
        with noted(fails=self.fails):
            time.sleep(0.001)
            if current_job.attempt <= self.fails:
                raise ValueError("not yet")


@jobs.register("faults.gated")
class Gated(Job):
    """Ends when the gate of its attempt is open."""

    def __init__(self, label: str) -> None:
        self.label = label

    def handle(self) -> None:
        gate = Path(current_app.instance_path) / f"{self.label}-{current_job.attempt}"
        with noted(label=self.label):
            while not gate.exists():
                time.sleep(0.01)


@jobs.register("faults.nap")
class Nap(Job):
    def __init__(self, seconds: float, *, tries: int = 3, limit: float = 60) -> None:
        self.seconds = seconds
        self.max_attempts = tries
        self.timeout = limit
        self.backoff = 0

    def handle(self) -> None:
        ends = time.monotonic() + self.seconds
        with noted():
            while time.monotonic() < ends:
                time.sleep(0.01)

    def failed(self, error: BaseException) -> None:
        note("hook", error=type(error).__name__)


@jobs.register("faults.blocking")
class Blocking(Job):
    """Spends about so long within one call, which never comes back to the interpreter in between."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def handle(self) -> None:
        began = time.perf_counter()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 50_000)
        rounds = int(50_000 * self.seconds / (time.perf_counter() - began))
        with noted():
            hashlib.pbkdf2_hmac("sha256", b"", b"", rounds)


@jobs.register("faults.shelling")
class Shelling(Job):
    """Runs another program, which a signal to the whole process group ends, and goes on."""

    def handle(self) -> None:
        with noted():
            subprocess.run(["sleep", "3"], check=False)
            time.sleep(0.2)


@jobs.register("faults.deaf")
class Deaf(Job):
    """Shuts its ears to signals for as long as it runs."""

    def __init__(self, seconds: float = 4) -> None:
        self.seconds = seconds

    def handle(self) -> None:
        with noted():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
                signal.signal(number, signal.SIG_IGN)
            time.sleep(self.seconds)


@jobs.register("faults.elsewhere")
class Elsewhere(Job):
    """Moves to its supervisor's process group, and swallows its time limit."""

    timeout = 0.2

    def handle(self) -> None:
        os.setpgid(0, os.getpgid(os.getppid()))
        while True:
            with contextlib.suppress(BaseException):
                time.sleep(30)


@jobs.register("faults.broken")
class Broken(Job):
    max_attempts = 1

    def __init__(self, label: str = "", *, size: int = 0, hook: str = "") -> None:
        self.label = label
        self.size = size
        self.hook = hook

    def handle(self) -> None:
        note("begin", job=current_job.id, attempt=current_job.attempt, label="broken")
        raise ValueError(f"no{'!' * self.size}")

    def failed(self, error: BaseException) -> None:
        if self.hook == "raises":
            raise RuntimeError("the hook is broken, too")


@jobs.register("faults.weigh")
class Weigh(Job):
    """Tells the length and the hash of the text that it was given."""

    def __init__(self, text: str) -> None:
        self.text = text

    def handle(self) -> None:
        with noted(length=len(self.text), hash=hashlib.sha256(self.text.encode()).hexdigest()):
            pass


@jobs.register("faults.count")
class Count(Job):
    """Counts a row of the app up, and may keep the transaction open for a while."""

    def __init__(self, row: int, *, hold: float = 0) -> None:
        self.row = row
        self.hold = hold

    def handle(self) -> None:
        with noted():
            db.session.execute(sa.update(Row).where(Row.id == self.row).values(number=Row.number + 1))
            time.sleep(self.hold)
            db.session.commit()


@jobs.register("faults.violate")
class Violate(Job):
    """Leaves the session as it is after an error, which it lets out or swallows."""

    max_attempts = 1

    def __init__(self, *, swallow: bool) -> None:
        self.swallow = swallow

    def handle(self) -> None:
        db.session.add(Row(text="first"))
        try:
            db.session.flush()
        except sa.exc.IntegrityError:
            note("violated")
            if not self.swallow:
                raise


@jobs.limiter("faults")
def limit(job: Job) -> Limit:
    amount, seconds = current_app.config["FAULTS_LIMIT"]
    return Limit.every(seconds, amount)


class Witness:
    """Notes between which two instants the limit let the job through, and what waits for its turn."""

    def __init__(self) -> None:
        self.limited = RateLimited("faults")

    def handle(self, job: Job, call_next: Callable[[], None]) -> None:
        asked = time.time()

        def through() -> None:
            note("through", job=current_job.id, asked=asked, pid=os.getpid())
            call_next()

        note("asked", job=current_job.id)
        self.limited.handle(job, through)


@jobs.register("faults.limited")
class Limited(Job):
    """Runs behind the limit of the app's config, and raises so many times first."""

    backoff = 0

    def __init__(self, label: str = "", *, raises: int = 0, tries: int = 1) -> None:
        self.label = label
        self.raises = raises
        self.max_attempts = tries

    def middleware(self) -> list[Any]:
        return [Witness()]

    def handle(self) -> None:
        with noted(label=self.label):
            if current_job.attempt <= self.raises:
                raise ConnectionError("no answer")


@jobs.register("faults.exclusive")
class Exclusive(Job):
    """One with its key at a time. Ends when the gate of its attempt is open."""

    max_attempts = 3
    backoff = 0

    def __init__(self, label: str, *, limit: float = 60, drop: bool = False) -> None:
        self.label = label
        self.drop = drop
        self.timeout = limit

    def middleware(self) -> list[Any]:
        return [WithoutOverlapping("k", release_after=0.2, drop=self.drop)]

    def handle(self) -> None:
        gate = Path(current_app.instance_path) / f"{self.label}-{current_job.attempt}"
        with noted(label=self.label):
            while not gate.exists():
                time.sleep(0.01)


@jobs.register("faults.throttled")
class Throttled(Job):
    """Has two stopping rules, a backoff and a circuit breaker, and always fails."""

    max_attempts = 3
    retry_until = timedelta(hours=1)
    backoff = (1, 2, 4)

    def middleware(self) -> list[Any]:
        return [ThrottlesExceptions("faults", max_exceptions=10, decay=60)]

    def handle(self) -> None:
        with noted():
            raise ConnectionError("the bank does not answer")


@jobs.task("faults.forget")
def forget_to_commit(text: str) -> None:
    db.session.add(Row(text=text))
    db.session.flush()


@jobs.task("faults.leave-open")
def leave_open() -> None:
    connection = db.session.connection(execution_options={"isolation_level": "READ UNCOMMITTED"})
    connection.execute(sa.update(Row).values(number=-1))
    note("isolation", level=connection.get_isolation_level())


@jobs.task("faults.read-and-write")
def read_and_write(text: str) -> None:
    """Tells what a job finds, and writes a row of its own."""
    known = len(db.session.identity_map)
    is_in_transaction = db.session().in_transaction()
    first = db.session.get(Row, 1)
    with noted(
        known=known,
        in_transaction=is_in_transaction,
        level=db.session.connection().get_isolation_level(),
        number=first.number,
        texts=sorted(db.session.scalars(sa.select(Row.text))),
    ):
        db.session.add(Row(text=text))
        db.session.commit()


@jobs.register("faults.soil")
class Soil(Job):
    """Sets all that a context can hold, and ends as it is told."""

    timeout = 0.15

    def __init__(self, ending: str) -> None:
        self.ending = ending

    def handle(self) -> None:
        g.user = g.locale = "somebody"
        tenant.set("acme")
        decimal.getcontext().prec = 3
        match self.ending:
            case "fails":
                raise ValueError
            case "times out":
                time.sleep(60)
            case "is released":
                current_job.release(3600)


def found_in_context() -> dict[str, Any]:
    """All that `Soil` sets, as it is here."""
    return {
        "user": g.get("user"),
        "locale": g.get("locale"),
        "tenant": tenant.get(None),
        "precision": decimal.getcontext().prec,
    }


@jobs.task("faults.look")
def look() -> None:
    note("found", **found_in_context())


if "FAULTS_LATER" in os.environ:  # what a later release of the app knows

    @jobs.task("faults.later")
    def later() -> None:
        with noted(label="later"):
            pass


def dispatch_for_later() -> None:
    """Dispatch a job for every way to say when, and print the instants that were meant, in epoch seconds."""
    due = datetime.now(UTC) + timedelta(seconds=3)
    ways = {
        "seconds": 3,
        "duration": timedelta(seconds=3),
        "in Berlin": due.astimezone(ZoneInfo("Europe/Berlin")),
        "in Lord Howe": due.astimezone(ZoneInfo("Australia/Lord_Howe")),
    }
    meant = {}
    for label, delay in ways.items():
        meant[label] = time.time() + 3 if isinstance(delay, int | timedelta) else due.timestamp()
        jobs.dispatch(Brief(label), delay=delay)
    click.echo(json.dumps(meant))


@click.argument("amount", type=int)
def produce(amount: int) -> None:
    """Dispatch so many jobs one by one, each until it is stored: one in twenty is delayed, one in twenty fails once."""
    for number in range(amount):
        fails = int(number % 20 == 7)
        delay = 0.5 if number % 20 == 13 else None
        job_id = new_id()
        note("made", job=job_id, fails=fails)
        while True:
            try:
                jobs.dispatch(Short(fails), id=job_id, delay=delay)
                break
            except ConnectionLost:
                time.sleep(0.05)


def break_off(_error: BaseException | None) -> None:
    """A teardown function that raises after each job, so that none of those registered before it is called."""
    if "FAULTS_TEARDOWN" in os.environ and current_job:
        raise RuntimeError("broken off")


def touch(app: Flask, url: str) -> None:
    """Use the database and Redis while the app is made, and keep the connections."""
    with app.app_context():
        db.session.execute(sa.text("SELECT 1"))
    client = app.extensions["faults_redis"] = redis.Redis.from_url(url)
    client.ping()


def create_app(folder: str | None = None, config: dict[str, Any] | None = None) -> Flask:
    """The app in a folder of its own; other processes are told of it by their environment."""
    if "FAULTS_BROKEN" in os.environ and VARIABLE in os.environ:
        if os.environ["FAULTS_BROKEN"] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        raise RuntimeError("no worker can have this app")
    app = Flask("faults", instance_path=folder or os.environ["FAULTS_FOLDER"])
    if "FAULTS_SLOW" in os.environ:
        who = "worker" if VARIABLE in os.environ else "command"
        Path(app.instance_path, f"{who}-is-starting").write_text(str(os.getpid()))
        time.sleep(float(os.environ["FAULTS_SLOW"]))
    app.config.update(SECRET_KEY="not a secret", SQLALCHEMY_DATABASE_URI="sqlite:///app.sqlite")
    app.config["FAULTS_LIMIT"] = (5, 2)
    app.config.update(json.loads(os.environ["FAULTS_CONFIG"]) if config is None else config)
    if "FAULTS_MAINTENANCE" in os.environ:
        app.config["JOBS_MAINTENANCE"] = Path(os.environ["FAULTS_MAINTENANCE"]).exists
    if "FAULTS_LOGGING" in os.environ:
        logging.config.dictConfig(json.loads(os.environ["FAULTS_LOGGING"]))
    db.init_app(app)
    jobs.init_app(app)
    if "FAULTS_TOUCH" in os.environ:
        touch(app, os.environ["FAULTS_TOUCH"])
    app.teardown_appcontext(break_off)
    app.cli.command("dispatch-for-later")(dispatch_for_later)
    app.cli.command("produce")(produce)
    return app


@jobs.register("faults.one-of-a-kind")
class OneOfAKind(Gated):
    """Unique by its label, with one attempt."""

    unique = True
    max_attempts = 1

    def unique_id(self) -> str:
        return self.label


@jobs.register("faults.member")
class Member(Job):
    """Ends as it is told: well, with an error, too late, not at all, or with its worker."""

    max_attempts = 1
    timeout = 1

    def __init__(self, ends: str) -> None:
        self.ends = ends

    def handle(self) -> None:
        with noted(ends=self.ends):
            match self.ends:
                case "raise":
                    raise ValueError("as told")
                case "late":
                    time.sleep(30)
                case "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "delete":
                    current_job.delete()


@jobs.register("faults.cannot-be-built")
class CannotBeBuilt(Job):
    """Is stored in a version that the workers' code cannot read."""

    version = int(os.environ.get("CANNOT_BE_BUILT", "1"))

    def __init__(self) -> None:
        self.word = "stored"

    def handle(self) -> None:
        note("never")


@jobs.upcast("faults.cannot-be-built", 1)
def nothing_fits(fields: dict[str, Any]) -> dict[str, Any]:
    raise ValueError("nothing fits")


@jobs.register("faults.callback")
class Callback(Job):
    """Writes what it finds of its batch."""

    def __init__(self, role: str) -> None:
        self.role = role

    def handle(self) -> None:
        assert current_job.batch is not None
        state = current_job.batch.state()
        counts = [state.total, state.pending, state.done, state.failed, state.skipped]
        note("callback", role=self.role, counts=counts)


from . import hard_jobs as hard_jobs  # noqa: E402  (its jobs are registered with what is above)
