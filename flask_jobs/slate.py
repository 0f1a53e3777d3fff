"""What a worker process holds, in memory that its supervisor reads, also after the worker's death.

The slate is a mapped file without a name. A worker writes to it with plain stores, a few for each job and no system
call; the supervisor only ever reads what a worker writes, but for its orders and the renewals that it confirms. Each
thread of a worker that runs jobs has a lane of its own.

A process can die amid any store. What is longer than a byte is therefore either written where nobody looks yet and then
made current by one byte, or bears a checksum: what is half written reads as not written. What that means is safe each
time: a token goes onto the slate before the store is asked with it, and a job counts as finished only when its byte
says so.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from . import clock
from .envelope import Reservation

MOST = 64
"""How many jobs one lane holds at most."""

LEFT = -1.0
"""The time limit of a job that has left it behind."""

_MAGIC = b"slate-1\0"
_HEADER = 64
_STATUS, _REASON, _ORDERS, _ERRANDS = 8, 9, 10, 12
_COUNT = struct.Struct("<I")

_LANE = 2 * 32_768 + 4_096
_CURRENT, _IN_USE, _RENEWED, _ASKING, _RUNNING, _RECORDS = 0, 1, 8, 64, 192, 4_096

_RENEWAL = struct.Struct("<Id")
_TOKEN = struct.Struct("<IdB")
_RUN = struct.Struct("<IHddH")
_RECORD = struct.Struct("<IIHI")
_CHECKSUM = struct.Struct("<I")

_RECORD_SIZE = 32_768
_STATES, _TEXT = 16, 16 + MOST
_LONGEST_OPTIONS = _RECORDS - _RUNNING - _RUN.size
_LONGEST_TOKEN = _RUNNING - _ASKING - _TOKEN.size


class State(IntEnum):
    """How far a worker has come with a job that it holds."""

    HELD = 0
    ENTERED = 1
    """It is rebuilt, or in its middleware."""
    STARTED = 2
    """Its body was entered."""
    DONE = 3
    SKIPPED = 4
    SETTLED = 5
    """The store has been told of its end, whatever that was."""

    @property
    def is_open(self) -> bool:
        """Whether its end is not known."""
        return self in (State.HELD, State.ENTERED, State.STARTED)


class Status(IntEnum):
    """How far a worker process has come itself."""

    STARTING = 0
    READY = 1
    LEAVING = 2


class Order(IntEnum):
    """What a supervisor wants of a worker, as bits."""

    PAUSE = 1
    HURRY = 2
    """When a signal comes, to cut short what runs."""
    LEAVE = 4
    """To end when its errands are run."""


@dataclass(frozen=True, slots=True)
class Held:
    """One job in a worker's hands, with what names its delivery to the store."""

    id: str
    receipt: str
    queue: str
    name: str
    attempt: int
    state: State


@dataclass(frozen=True, slots=True)
class Running:
    """The attempt that is under way: which job of the lane, since when, its time limit (0: none) and its options.

    `limit` counts from `began`, on the monotonic clock that all processes of a host share; it is `LEFT` when the job is
    out of its middleware. `options` is text that `JobOptions.load` takes, empty if it was too long.
    """

    position: int
    began: float
    limit: float
    options: str


@dataclass(frozen=True, slots=True)
class View:
    """A lane as it was read.

    `asking` is the token of a pop whose answer has not arrived; `token` and `asked` (on the monotonic clock) are those
    of the pop that brought `held`. `in_use`: the application's code runs, or the library around it.
    """

    number: int
    serial: int = 0
    asking: str | None = None
    token: str = ""
    asked: float = 0.0
    held: tuple[Held, ...] = ()
    running: Running | None = None
    in_use: bool = False

    @property
    def under_way(self) -> Held | None:
        """The job whose end is not known yet and that has been entered."""
        for held in self.held:
            if held.state in (State.ENTERED, State.STARTED):
                return held
        return None

    @property
    def unsettled(self) -> tuple[Held, ...]:
        """What the store has not been told of."""
        return tuple(held for held in self.held if held.state is not State.SETTLED)


class NoLane:
    """The lane of a worker that nobody watches: writing to it does nothing."""

    is_watched = False

    def asking(self, token: str) -> None:
        """A pop with this token is about to be sent."""

    def answered(self, token: str, reservations: Sequence[Reservation]) -> None:
        """It has brought these; all that was held before is settled."""

    def clear(self) -> None:
        """Nothing is held any more, and nothing asked for."""

    def use(self) -> None:
        """Code of the application runs from now on."""

    def enter(self, position: int) -> None:
        """The job at this position is taken up."""

    def run(self, position: int, limit: float, options: str) -> None:
        """It comes under its time limit."""

    def start(self, position: int) -> None:
        """Its body is entered."""

    def unlimited(self) -> None:
        """The job under way has left its time limit behind."""

    def end(self, position: int, state: State) -> None:
        """It is done, skipped, or settled otherwise."""

    def leave(self) -> None:
        """No code of the application runs any more."""

    @property
    def renewed(self) -> float:
        """When the last renewal of all that is held was sent that the store has confirmed, or minus infinity."""
        return float("-inf")


class Lane(NoLane):
    """One lane, to be written by its worker."""

    is_watched = True

    def __init__(self, memory: mmap.mmap, number: int) -> None:
        self._memory = memory
        self._at = _HEADER + number * _LANE
        self._states = 0
        self._serial = 0
        self._running = 0, 0.0, b""

    def asking(self, token: str) -> None:
        """A pop with this token is about to be sent."""
        text = token.encode()
        if len(text) > _LONGEST_TOKEN:
            raise ValueError(f"A token is at most {_LONGEST_TOKEN} bytes long.")
        at, asked = self._at + _ASKING, clock.monotonic()
        body = _TOKEN.pack(0, asked, len(text)) + text
        self._memory[at : at + len(body)] = _checked(body)

    def answered(self, token: str, reservations: Sequence[Reservation]) -> None:
        """It has brought these; all that was held before is settled."""
        asked = _TOKEN.unpack_from(self._memory, self._at + _ASKING)[1]
        jobs = [
            [held.envelope.id, held.receipt, held.envelope.queue, held.envelope.name, held.attempt]
            for held in reservations
        ]
        text = json.dumps([token, asked, jobs]).encode()
        if len(jobs) > MOST or len(text) > _RECORD_SIZE - _TEXT:
            raise ValueError(f"A lane holds at most {MOST} jobs, not {len(jobs)}.")
        self._serial = (self._serial + 1) & 0xFFFFFFFF
        other = 1 - self._memory[self._at + _CURRENT]
        at = self._at + _RECORDS + other * _RECORD_SIZE
        memory = self._memory
        memory[at + _STATES : at + _TEXT] = bytes(MOST)
        memory[at + _TEXT : at + _TEXT + len(text)] = text
        _RECORD.pack_into(memory, at, zlib.crc32(text, self._serial), self._serial, len(jobs), len(text))
        self._states = at + _STATES
        memory[self._at + _CURRENT] = other

    def clear(self) -> None:
        """Nothing is held any more, and nothing asked for."""
        self._memory[self._at + _ASKING : self._at + _ASKING + _TOKEN.size] = bytes(_TOKEN.size)
        self.answered("", ())

    def use(self) -> None:
        """Code of the application runs from now on."""
        self._memory[self._at + _IN_USE] = 1

    def enter(self, position: int) -> None:
        """The job at this position is taken up."""
        self.use()
        self._memory[self._states + position] = State.ENTERED

    def run(self, position: int, limit: float, options: str) -> None:
        """It comes under its time limit."""
        text = options.encode()
        if len(text) > _LONGEST_OPTIONS:
            text = b""
        self._running = position, clock.monotonic(), text
        self._write_run(limit)

    def start(self, position: int) -> None:
        """Its body is entered."""
        self._memory[self._states + position] = State.STARTED

    def unlimited(self) -> None:
        """The job under way has left its time limit behind."""
        self._write_run(LEFT)

    def end(self, position: int, state: State) -> None:
        """It is done, skipped, or settled otherwise."""
        self._memory[self._states + position] = state

    def leave(self) -> None:
        """No code of the application runs any more."""
        self._memory[self._at + _RUNNING : self._at + _RUNNING + 4] = bytes(4)
        self._memory[self._at + _IN_USE] = 0

    def _write_run(self, limit: float) -> None:
        position, began, text = self._running
        at = self._at + _RUNNING
        body = _RUN.pack(0, position, began, limit, len(text)) + text
        self._memory[at : at + len(body)] = _checked(body)

    @property
    def renewed(self) -> float:
        """When the last renewal of all that is held was sent that the store has confirmed, or minus infinity."""
        at = self._at + _RENEWED
        first = _RENEWAL.unpack_from(self._memory, at)
        if first != _RENEWAL.unpack_from(self._memory, at + _RENEWAL.size) or first[0] != self._serial:
            return float("-inf")
        return float(first[1])


class Slate:
    """The whole slate of one worker process, for both sides."""

    def __init__(self, memory: mmap.mmap, lanes: int) -> None:
        self._memory = memory
        self._lanes = lanes
        # What was read last of each lane, for the instants in which it is written.
        self._seen: dict[int, View] = {}

    @classmethod
    def make(cls, lanes: int) -> tuple[Slate, int]:
        """A fresh slate, and the file descriptor of its memory: the caller's to close."""
        with tempfile.TemporaryFile(prefix="flask_jobs-") as file:
            file.truncate(_HEADER + lanes * _LANE)
            descriptor = os.dup(file.fileno())
        memory = mmap.mmap(descriptor, _HEADER + lanes * _LANE)
        memory[: len(_MAGIC)] = _MAGIC
        return cls(memory, lanes), descriptor

    @classmethod
    def open(cls, descriptor: int, lanes: int) -> Slate:
        """The slate that a supervisor has made, in its worker."""
        memory = mmap.mmap(descriptor, _HEADER + lanes * _LANE)
        if memory[: len(_MAGIC)] != _MAGIC:
            raise ValueError("This is no slate of a supervisor of this version.")
        return cls(memory, lanes)

    def close(self) -> None:
        """Let go of the memory."""
        self._memory.close()

    def lane(self, number: int) -> Lane:
        """One lane, to write to."""
        return Lane(self._memory, number)

    @property
    def status(self) -> Status:
        """How far the worker has come."""
        return Status(self._memory[_STATUS])

    @property
    def reason(self) -> int:
        """Why it is leaving, as it has said."""
        return self._memory[_REASON]

    def ready(self) -> None:
        """The worker looks for jobs."""
        self._memory[_STATUS] = Status.READY

    def leaving(self, reason: int) -> None:
        """The worker ends, of its own accord or because it was told."""
        self._memory[_REASON] = reason
        self._memory[_STATUS] = Status.LEAVING

    @property
    def errands(self) -> int:
        """How many errands the worker has run."""
        return int(_COUNT.unpack_from(self._memory, _ERRANDS)[0])

    def count_errand(self) -> None:
        """One more errand is run."""
        _COUNT.pack_into(self._memory, _ERRANDS, self.errands + 1)

    def order(self, order: Order, *, wanted: bool = True) -> None:
        """Give an order, or take it back."""
        orders = self._memory[_ORDERS]
        self._memory[_ORDERS] = orders | order if wanted else orders & ~order

    def is_ordered(self, order: Order) -> bool:
        """Whether the order stands."""
        return bool(self._memory[_ORDERS] & order)

    def renewed(self, view: View, sent: float) -> None:
        """Let the worker know that a renewal of what this view holds, sent at this instant, was confirmed."""
        at = _HEADER + view.number * _LANE + _RENEWED
        for copy in (0, 1):
            _RENEWAL.pack_into(self._memory, at + copy * _RENEWAL.size, view.serial, sent)

    def views(self) -> list[View]:
        """All lanes as they are now."""
        return [self.view(number) for number in range(self._lanes)]

    def view(self, number: int) -> View:
        """One lane as it is now; while a worker writes to it, as it was a moment ago."""
        for _ in range(3):
            view = self._read(number)
            if view is not None:
                self._seen[number] = view
                return view
        return self._seen.get(number) or View(number)

    def _read(self, number: int) -> View | None:
        memory, at = self._memory, _HEADER + number * _LANE
        current = memory[at + _CURRENT]
        record = at + _RECORDS + current * _RECORD_SIZE
        checksum, serial, count, length = _RECORD.unpack_from(memory, record)
        text = memory[record + _TEXT : record + _TEXT + length] if length <= _RECORD_SIZE - _TEXT else b""
        states = memory[record + _STATES : record + _STATES + min(count, MOST)]
        asking, running, in_use = self._asking(at), self._running(at), bool(memory[at + _IN_USE])
        if serial == 0:
            return View(number, asking=asking, in_use=in_use)
        if memory[at + _CURRENT] != current or checksum != zlib.crc32(text, serial):
            return None
        token, asked, jobs = json.loads(text)
        held = tuple(
            Held(job_id, receipt, queue, name, attempt, State(state))
            for (job_id, receipt, queue, name, attempt), state in zip(jobs, states, strict=True)
        )
        return View(number, serial, None if asking == token else asking, token, asked, held, running, in_use)

    def _asking(self, at: int) -> str | None:
        checksum, _, length = _TOKEN.unpack_from(self._memory, at + _ASKING)
        body = self._memory[at + _ASKING : at + _ASKING + _TOKEN.size + length]
        is_whole = length and checksum == _sum(body)
        return body[_TOKEN.size :].decode() if is_whole else None

    def _running(self, at: int) -> Running | None:
        checksum, position, began, limit, length = _RUN.unpack_from(self._memory, at + _RUNNING)
        body = self._memory[at + _RUNNING : at + _RUNNING + _RUN.size + length]
        if length > _LONGEST_OPTIONS or checksum != _sum(body):
            return None
        return Running(position, began, limit, body[_RUN.size :].decode())


def _sum(body: bytes) -> int:
    # Never 0, which says that nothing is there.
    return zlib.crc32(body[_CHECKSUM.size :]) | 1


def _checked(body: bytes) -> bytes:
    return _CHECKSUM.pack(_sum(body)) + body[_CHECKSUM.size :]
