"""One lane of a slate, as its worker writes it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence

from .. import clock
from ..envelope import Reservation
from .layout import (
    ASKING,
    CHECKSUM,
    CURRENT,
    HAS_LEFT,
    HEADER,
    IN_USE,
    INSTANTS,
    LANE,
    LONGEST_OPTIONS,
    LONGEST_TOKEN,
    MOST,
    RECORD,
    RECORD_SIZE,
    RECORDS,
    RENEWAL,
    RENEWED,
    RENEWED_HERE,
    RUN,
    RUNNING,
    STATES,
    TEXT,
    TOKEN,
    Memory,
    checked,
)
from .values import State


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

    def limit(self, seconds: float) -> None:
        """What is called on the job's behalf from now on has a time limit of its own; 0: none."""

    def unlimited(self) -> None:
        """The job under way has left its time limit behind."""

    def end(self, position: int, state: State) -> None:
        """It is done, skipped, or settled otherwise."""

    def leave(self) -> None:
        """No code of the application runs any more."""

    def renewed_here(self, sent: float) -> None:
        """The worker itself has renewed what it holds, by what it sent at this instant."""

    @property
    def renewed(self) -> float:
        """When the last renewal of all that is held was sent that the store has confirmed, or minus infinity."""
        return float("-inf")


class Lane(NoLane):
    """One lane, to be written by its worker."""

    is_watched = True

    def __init__(self, memory: Memory, number: int) -> None:
        self._memory = memory
        self._at = HEADER + number * LANE
        self._states = 0
        self._serial = 0
        self._run = 0
        self._running = 0, 0.0, b""

    def asking(self, token: str) -> None:
        """A pop with this token is about to be sent."""
        text = token.encode()
        if len(text) > LONGEST_TOKEN:
            raise ValueError(f"A token is at most {LONGEST_TOKEN} bytes long.")
        at, asked = self._at + ASKING, clock.monotonic()
        body = checked(TOKEN.pack(asked, len(text)) + text)
        self._memory[at : at + len(body)] = body

    def answered(self, token: str, reservations: Sequence[Reservation]) -> None:
        """It has brought these; all that was held before is settled."""
        asked = TOKEN.unpack_from(self._memory, self._at + ASKING + CHECKSUM.size)[0]
        jobs = [
            [held.envelope.id, held.receipt, held.envelope.queue, held.envelope.name, held.attempt]
            for held in reservations
        ]
        text = json.dumps([token, asked, jobs]).encode()
        if len(jobs) > MOST or len(text) > RECORD_SIZE - TEXT:
            raise ValueError(f"A lane holds at most {MOST} jobs, not {len(jobs)}.")
        self._serial = (self._serial + 1) & 0xFFFFFFFF
        other = 1 - self._memory[self._at + CURRENT]
        at = self._at + RECORDS + other * RECORD_SIZE
        memory = self._memory
        memory[at + STATES : at + TEXT] = bytes(MOST)
        memory[at + TEXT : at + TEXT + len(text)] = text
        head = RECORD.pack(zlib.crc32(text, self._serial), self._serial, len(jobs), len(text))
        memory[at : at + len(head)] = head
        self._states = at + STATES
        memory[self._at + CURRENT] = other

    def clear(self) -> None:
        """Nothing is held any more, and nothing asked for."""
        length = CHECKSUM.size + TOKEN.size
        self._memory[self._at + ASKING : self._at + ASKING + length] = bytes(length)
        self.answered("", ())

    def use(self) -> None:
        """Code of the application runs from now on."""
        self._memory[self._at + IN_USE] = 1

    def enter(self, position: int) -> None:
        """The job at this position is taken up."""
        self.use()
        # What is said of the attempt before is not said of this one. No checksum is 0.
        self._memory[self._at + RUNNING : self._at + RUNNING + CHECKSUM.size] = bytes(CHECKSUM.size)
        self._memory[self._states + position] = State.ENTERED

    def run(self, position: int, limit: float, options: str) -> None:
        """It comes under its time limit."""
        text = options.encode()
        if len(text) > LONGEST_OPTIONS:
            text = b""
        self._running = position, clock.monotonic(), text
        self._write_run(limit)

    def start(self, position: int) -> None:
        """Its body is entered."""
        self._memory[self._states + position] = State.STARTED

    def limit(self, seconds: float) -> None:
        """What is called on the job's behalf from now on has a time limit of its own; 0: none."""
        self._running = self._running[0], clock.monotonic(), self._running[2]
        self._write_run(seconds)

    def unlimited(self) -> None:
        """The job under way has left its time limit behind."""
        # By the number of its run, so that it is never said of the next one.
        self._memory[self._at + HAS_LEFT] = self._run

    def end(self, position: int, state: State) -> None:
        """It is done, skipped, or settled otherwise."""
        self._memory[self._states + position] = state

    def leave(self) -> None:
        """No code of the application runs any more."""
        self._memory[self._at + IN_USE] = 0

    def renewed_here(self, sent: float) -> None:
        """The worker itself has renewed what it holds, by what it sent at this instant."""
        at = self._at + RENEWED_HERE
        # Twice, so that one half written is known by the other.
        self._memory[at : at + INSTANTS.size] = INSTANTS.pack(sent, sent)

    def _write_run(self, limit: float) -> None:
        position, began, text = self._running
        at = self._at + RUNNING
        self._run = (self._run + 1) & 0xFF
        body = checked(RUN.pack(self._run, position, began, limit, len(text)) + text)
        self._memory[at : at + len(body)] = body

    @property
    def renewed(self) -> float:
        """When the last renewal of all that is held was sent that the store has confirmed, or minus infinity."""
        at = self._at + RENEWED
        first = RENEWAL.unpack_from(self._memory, at)
        if first != RENEWAL.unpack_from(self._memory, at + RENEWAL.size) or first[0] != self._serial:
            return float("-inf")
        return float(first[1])
