"""The slate of one worker process, for both sides."""

from __future__ import annotations

import json
import mmap
import os
import sys
import tempfile
import zlib

from .lane import Lane
from .layout import (
    ASKING,
    CHECKSUM,
    COUNT,
    CURRENT,
    ERRANDS,
    HAS_LEFT,
    HEADER,
    IN_USE,
    INSTANTS,
    LANE,
    LEFT,
    LONGEST_OPTIONS,
    MAGIC,
    MOST,
    ORDERS,
    REASON,
    RECORD,
    RECORD_SIZE,
    RECORDS,
    RENEWAL,
    RENEWED,
    RENEWED_HERE,
    RUN,
    RUNNING,
    STATES,
    STATUS,
    TEXT,
    TOKEN,
    Memory,
    sum_of,
)
from .values import Held, Order, Running, State, Status, View

Brought = tuple[str, float, list[tuple[str, str, str, str, int]]]
"""The token of a pop, when it was sent, and of each job its id, receipt, queue, name and attempt."""


class Slate:
    """The whole slate of one worker process, for both sides."""

    def __init__(self, memory: Memory, lanes: int) -> None:
        self._memory = memory
        self._lanes = lanes
        # What was read last of each lane, for the instants in which it is written.
        self._seen: dict[int, View] = {}
        self._known: dict[int, tuple[int, Brought]] = {}

    @classmethod
    def make(cls, lanes: int) -> tuple[Slate, int]:
        """A fresh slate, and the file descriptor of its memory: the caller's to close."""
        descriptor = _file_without_name(HEADER + lanes * LANE)
        memory = mmap.mmap(descriptor, HEADER + lanes * LANE)
        memory[: len(MAGIC)] = MAGIC
        return cls(memory, lanes), descriptor

    @classmethod
    def open(cls, descriptor: int, lanes: int) -> Slate:
        """The slate that a supervisor has made, in its worker."""
        memory = mmap.mmap(descriptor, HEADER + lanes * LANE)
        if memory[: len(MAGIC)] != MAGIC:
            raise ValueError("This is no slate of a supervisor of this version.")
        return cls(memory, lanes)

    def close(self) -> None:
        """Let go of the memory."""
        if isinstance(self._memory, mmap.mmap):
            self._memory.close()

    def lane(self, number: int) -> Lane:
        """One lane, to write to."""
        return Lane(self._memory, number)

    @property
    def status(self) -> Status:
        """How far the worker has come."""
        return Status(self._memory[STATUS])

    @property
    def reason(self) -> int:
        """Why it is leaving, as it has said."""
        return self._memory[REASON]

    def ready(self) -> None:
        """The worker looks for jobs."""
        self._memory[STATUS] = Status.READY

    def leaving(self, reason: int) -> None:
        """The worker ends, of its own accord or because it was told."""
        self._memory[REASON] = reason
        self._memory[STATUS] = Status.LEAVING

    @property
    def errands(self) -> int:
        """How many errands the worker has run."""
        return int(COUNT.unpack_from(self._memory, ERRANDS)[0])

    def count_errand(self) -> None:
        """One more errand is run."""
        self._memory[ERRANDS : ERRANDS + COUNT.size] = COUNT.pack(self.errands + 1)

    def order(self, order: Order, *, wanted: bool = True) -> None:
        """Give an order, or take it back."""
        orders = self._memory[ORDERS]
        self._memory[ORDERS] = orders | order if wanted else orders & ~order

    def is_ordered(self, order: Order) -> bool:
        """Whether the order stands."""
        return bool(self._memory[ORDERS] & order)

    def renewed(self, view: View, sent: float) -> None:
        """Let the worker know that a renewal of what this view holds, sent at this instant, was confirmed."""
        at = HEADER + view.number * LANE + RENEWED
        for copy in (0, 1):
            begins = at + copy * RENEWAL.size
            self._memory[begins : begins + RENEWAL.size] = RENEWAL.pack(view.serial, sent)

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
        memory, at = self._memory, HEADER + number * LANE
        current = memory[at + CURRENT]
        record = at + RECORDS + current * RECORD_SIZE
        serial, count = RECORD.unpack_from(memory, record)[1:3]
        states = memory[record + STATES : record + STATES + min(count, MOST)]
        asking, running, in_use = self._asking(at), self._running(at), bool(memory[at + IN_USE])
        if serial == 0:
            return View(number, asking=asking, in_use=in_use)
        brought = self._brought(number, record)
        is_same = memory[at + CURRENT] == current and RECORD.unpack_from(memory, record)[1] == serial
        if not is_same or brought is None or len(brought[2]) != len(states):
            return None
        token, asked, jobs = brought
        held = tuple(
            Held(job_id, receipt, queue, name, attempt, State(state))
            for (job_id, receipt, queue, name, attempt), state in zip(jobs, states, strict=True)
        )
        asking = None if asking == token else asking
        return View(number, serial, asking, token, asked, held, running, in_use, self._renewed_here(at))

    def _brought(self, number: int, record: int) -> Brought | None:
        """What a pop has brought; read once for each, for it is looked at many times."""
        checksum, serial, _, length = RECORD.unpack_from(self._memory, record)
        known = self._known.get(number)
        if known is not None and known[0] == serial:
            return known[1]
        text = self._memory[record + TEXT : record + TEXT + length] if length <= RECORD_SIZE - TEXT else b""
        if checksum != zlib.crc32(text, serial):
            return None
        token, asked, jobs = json.loads(text)
        self._known[number] = serial, (token, asked, jobs)
        return token, asked, jobs

    def _renewed_here(self, at: int) -> float:
        once, again = INSTANTS.unpack_from(self._memory, at + RENEWED_HERE)
        return float(once) if once == again else 0.0

    def _has_sum(self, at: int, body: bytes | bytearray) -> bool:
        return bool(CHECKSUM.unpack_from(self._memory, at)[0] == sum_of(body))

    def _asking(self, at: int) -> str | None:
        begins = at + ASKING + CHECKSUM.size
        _, length = TOKEN.unpack_from(self._memory, begins)
        body = self._memory[begins : begins + TOKEN.size + length]
        return body[TOKEN.size :].decode() if length and self._has_sum(at + ASKING, body) else None

    def _running(self, at: int) -> Running | None:
        # First, for a run that leaves its limit while this reads is in no danger, and one that begins might be.
        has_left = self._memory[at + HAS_LEFT]
        begins = at + RUNNING + CHECKSUM.size
        run, position, began, limit, length = RUN.unpack_from(self._memory, begins)
        body = self._memory[begins : begins + RUN.size + length]
        if length > LONGEST_OPTIONS or not self._has_sum(at + RUNNING, body):
            return None
        return Running(position, began, LEFT if has_left == run else limit, body[RUN.size :].decode())


def _file_without_name(size: int) -> int:
    """The descriptor of one. Where it lies in a folder, its room is taken at once: a store to a page for which the disk
    has none left would end the process that writes it."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("flask_jobs", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, size)
        return descriptor
    with tempfile.TemporaryFile(prefix="flask_jobs-") as file:
        file.write(bytes(size))
        file.flush()
        return os.dup(file.fileno())
