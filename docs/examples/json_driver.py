"""Jobs in one JSON file: slow, but it keeps the whole contract, and is short enough to read."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from flask_jobs import clock, history
from flask_jobs.config import ConnectionSettings
from flask_jobs.driver import Driver
from flask_jobs.drivers import Surroundings
from flask_jobs.drivers.transitions import RECLAIMED_AT_ONCE, in_turn, taken_in
from flask_jobs.envelope import (
    Ack,
    After,
    Counters,
    Envelope,
    Fail,
    Popped,
    Reclaimed,
    Release,
    Reservation,
    Room,
    Settled,
    Settlement,
    instant,
)
from flask_jobs.pushes import Push, Pushed
from flask_jobs.stored import Sizes
from flask_jobs.validation import queue_name

READY, DELAYED, RESERVED = "ready", "delayed", "reserved"


@dataclass
class Row:
    """A stored job. `at`: its place if it is ready, when it is due if delayed, when its lease ends if reserved."""

    envelope: dict[str, Any]
    pushed_at: float
    retry_until: float | None
    seq: int
    state: str = READY
    at: float = 0.0
    token: str = ""
    alone: bool = False
    counters: dict[str, int] = field(default_factory=dict)
    history: str | None = None

    def reservation(self, now: float) -> Reservation:
        """The delivery to whoever holds the job; its receipt is the token of the pop."""
        past = history.load(self.history)
        envelope, counters = Envelope(**self.envelope), Counters(**self.counters)
        return Reservation(envelope, counters, self.token, now, self.pushed_at, self.retry_until, past)

    def put_back(self, state: str, at: float) -> None:
        """Let it wait, held by nobody."""
        self.state, self.at, self.token = state, at, ""


class Contents:
    """What is in the file."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.rows = {job_id: Row(**row) for job_id, row in data.get("rows", {}).items()}
        self.failed: list[dict[str, Any]] = data.get("failed", [])
        self.settled: dict[str, float] = data.get("settled", {})
        self.ended: dict[str, float] = data.get("ended", {})
        self.seq: int = data.get("seq", 0)
        self.turns: dict[str, bool] = data.get("turns", {})

    def dump(self) -> str:
        """The text of the file."""
        return json.dumps({**vars(self), "rows": {job_id: vars(row) for job_id, row in self.rows.items()}})

    def lane(self, queue: str, state: str, upto: float = float("inf")) -> list[Row]:
        """The queue's jobs of this state, in order."""
        rows = (row for row in self.rows.values() if (row.state, row.envelope["queue"]) == (state, queue))
        return sorted((row for row in rows if row.at <= upto), key=lambda row: (row.at, row.seq))

    def head(self, queue: str) -> float:
        """The place before all that is ready."""
        return min((row.at for row in self.lane(queue, READY)), default=0.0) - 1.0

    def held(self, reservation: Reservation) -> Row | None:
        """The job of this delivery, if it is still its own."""
        row = self.rows.get(reservation.envelope.id)
        return row if row is not None and row.state == RESERVED and row.token == reservation.receipt else None

    def held_by(self, token: str) -> list[Row]:
        """What the pop with this token still holds, in the order of the pop."""
        rows = (row for row in self.rows.values() if row.state == RESERVED and row.token == token)
        return sorted(rows, key=lambda row: row.at)

    def next_due(self, queues: Sequence[str]) -> float | None:
        """When the next delayed job or lease falls due."""
        return min(
            (row.at for queue in queues for state in (DELAYED, RESERVED) for row in self.lane(queue, state)),
            default=None,
        )


class JsonFileDriver(Driver):
    """Keeps jobs in a JSON file. Each call locks it, reads it, and replaces it as a whole: so each is atomic."""

    def __init__(self, path: Path, *, retry_after: float = 90.0, remember_ids: float = 3_600.0) -> None:
        self._path = path
        self._retry_after = retry_after
        self._remember_ids = remember_ids

    def push(self, pushes: Sequence[Push]) -> list[Pushed]:
        """Store the jobs, each once by its id."""
        queues = {queue_name(push.envelope.queue) for push in pushes}
        with self._changing() as contents:
            heads = {queue: contents.head(queue) for queue in queues}
            return [Pushed(push.envelope.id, stored=self._store(contents, push, heads)) for push in pushes]

    def pop(self, queues: Sequence[str], token: str, room: Room) -> Popped:
        """Take in what expired, then reserve what there is room for."""
        names = [queue_name(queue) for queue in queues]
        with self._changing() as contents:
            now = clock.now()
            reclaimed = self._take_in(contents, names, now)
            taken = self._choose(contents, names, room, now)
            for place, row in enumerate(taken):
                row.state, row.token, row.alone = RESERVED, token, len(taken) == 1
                row.at = now + self._retry_after + place * 1e-6  # tells the order of the pop
                row.counters["attempts"] += 1
            next_due = None if taken else contents.next_due(names)
            return Popped(tuple(row.reservation(now) for row in taken), now, next_due, tuple(reclaimed))

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Settle deliveries, and return those that came too late."""
        with self._changing() as contents:
            now = clock.now()
            return Settled(tuple(one for one in settlements if not self._settle(contents, one, now)))

    def recover(self, token: str, keep: Collection[str] = ()) -> int:
        """Put back, uncharged and at the head, what the pop with this token still holds."""
        with self._changing() as contents:
            lost = [row for row in contents.held_by(token) if row.envelope["id"] not in keep]
            for row in reversed(lost):  # the last one first, each before all others
                row.counters["attempts"] -= 1
                row.put_back(READY, contents.head(row.envelope["queue"]))
            return len(lost)

    def held(self, token: str) -> list[Reservation]:
        """What the pop with this token still holds, in the order of the pop."""
        with self._changing() as contents:
            return [row.reservation(clock.now()) for row in contents.held_by(token)]

    def wait(self, queues: Sequence[str], *, timeout: float, stopping: Callable[[], bool]) -> None:
        """Look every 10 ms."""
        deadline = clock.monotonic() + timeout
        while not stopping() and clock.monotonic() < deadline and not self._has_work(queues):
            time.sleep(0.01)

    def size(self, queue: str) -> Sizes:
        """How many jobs wait, are delayed, and are reserved."""
        queue_name(queue)
        with self._changing() as contents:
            due = len(contents.lane(queue, DELAYED, upto=clock.now()))
            ready, delayed, reserved = (len(contents.lane(queue, state)) for state in (READY, DELAYED, RESERVED))
            return Sizes(ready + due, delayed - due, reserved)

    def _store(self, contents: Contents, push: Push, heads: dict[str, float]) -> bool:
        now, job_id = clock.now(), push.envelope.id
        if job_id in contents.rows or contents.ended.get(job_id, now) > now:
            return False
        contents.seq += 1
        until = None if push.retry_until is None else instant(push.retry_until, now)
        row = Row(asdict(push.envelope), now, until, contents.seq, counters=asdict(Counters()))
        if push.due != After(0.0):
            row.put_back(DELAYED, instant(push.due, now))
        elif push.front:
            row.at = heads[push.envelope.queue]
        contents.rows[job_id] = row
        return True

    def _take_in(self, contents: Contents, queues: Sequence[str], now: float) -> list[Reclaimed]:
        expired = [row for queue in queues for row in contents.lane(queue, RESERVED, upto=now)]
        reclaimed = []
        for row in expired[:RECLAIMED_AT_ONCE]:
            before = row.reservation(now)
            reclaimed.append(Reclaimed(before.envelope, before.attempt, charged=row.alone))
            counters, entry = taken_in(before.counters, alone=row.alone, now=now)
            row.counters = asdict(counters)
            row.history = history.dump(history.extended(before.history, entry))
            row.put_back(DELAYED, now)
        return reclaimed

    def _choose(self, contents: Contents, queues: Sequence[str], room: Room, now: float) -> list[Row]:
        taken: list[Row] = []
        used = 0.0
        for queue in queues:
            due_first = contents.turns.get(queue, False)
            ready, due = contents.lane(queue, READY), contents.lane(queue, DELAYED, upto=now)
            for row in in_turn(iter(ready), iter(due), due_first=due_first):
                expected = room.expected(row.envelope["name"], Counters(**row.counters))
                if not room.fits(expected, taken=len(taken), used=used):
                    return taken
                contents.turns[queue] = not due_first
                taken.append(row)
                used += expected
        return taken

    def _settle(self, contents: Contents, settlement: Settlement, now: float) -> bool:
        reservation = settlement.reservation
        key = f"{type(settlement).__name__} {reservation.envelope.id} {reservation.receipt}"
        if key in contents.settled:
            return True
        row = contents.held(reservation)
        if row is None:
            return False
        contents.settled[key] = now
        match settlement:
            case Release(due=due, counters=counters, entry=entry):
                row.counters = asdict(counters)
                row.history = history.dump(history.extended(reservation.history, entry))
                row.put_back(DELAYED, instant(due, now))
            case Ack() | Fail():
                del contents.rows[reservation.envelope.id]
                contents.ended[reservation.envelope.id] = row.pushed_at + self._remember_ids
                if isinstance(settlement, Fail):
                    contents.failed.append({**vars(row), "error": asdict(settlement.error), "failed_at": now})
        return True

    def _has_work(self, queues: Sequence[str]) -> bool:
        with self._changing() as contents:
            due = contents.next_due(queues)
            is_due = due is not None and due <= clock.now()
            return is_due or any(contents.lane(queue, READY) for queue in queues)

    @contextmanager
    def _changing(self) -> Iterator[Contents]:
        """The file's contents, locked for everybody else, and written back unless an error comes out."""
        with open(f"{self._path}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = self._path.read_text("utf-8") if self._path.exists() else "{}"
            contents = Contents(json.loads(before))
            yield contents
            self._forget(contents, clock.now())
            after = contents.dump()
            if after != before:
                new = self._path.with_suffix(".new")
                new.write_text(after, "utf-8")
                os.replace(new, self._path)

    def _forget(self, contents: Contents, now: float) -> None:
        contents.ended = {job_id: until for job_id, until in contents.ended.items() if until > now}
        contents.settled = {key: at for key, at in contents.settled.items() if at > now - self._retry_after}


class JsonFileFactory:
    """Makes the driver of a connection with ``"driver": "json"``; `path` is its only setting."""

    keys = frozenset({"path"})

    def __call__(self, settings: ConnectionSettings, surroundings: Surroundings) -> JsonFileDriver:
        """The driver for a connection with these settings."""
        path = Path(settings.options.get("path", surroundings.instance_path / "jobs.json"))  # type: ignore[arg-type]  # checked by Path
        path.parent.mkdir(parents=True, exist_ok=True)
        return JsonFileDriver(path, retry_after=settings.retry_after, remember_ids=settings.remember_ids)
