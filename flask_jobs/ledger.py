"""What one session's transaction has gathered: its jobs that wait, what it wrote, and how each part ended.

A ledger has a frame for the transaction and one for every open savepoint. It is told of what happens
(`transactions` listens) and decides what becomes of the jobs; it never looks at the session itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeVar

import sqlalchemy as sa
from sqlalchemy.orm import SessionTransaction

from .errors import PushFailed

Item = TypeVar("Item", contravariant=True)


class Reason(Enum):
    """Why jobs that waited for a commit were discarded; the value completes "discarded because …"."""

    ROLLED_BACK = "the transaction was rolled back"
    SAVEPOINT = "their savepoint was rolled back"
    CLOSED = "the session was closed without a commit"
    DROPPED = "the session was dropped without a commit"
    REFUSED = "they could not be stored in the outer transaction"
    CUT_SHORT = "the release after the commit was cut short"


class Sink(Protocol[Item]):
    """Takes over the jobs that waited, in the order in which they were dispatched."""

    def shares(self, item: Item, engine: sa.Engine) -> bool:
        """Whether the job can be stored through a connection of this engine."""

    def within(self, connection: sa.Connection, items: Sequence[Item]) -> None:
        """Store the jobs through a connection whose transaction is about to commit. An error rolls it back."""

    def committed(self, items: Sequence[Item]) -> None:
        """Hear that the transaction which took in these jobs has been committed. Does not raise."""

    def after(self, items: Sequence[Item]) -> None:
        """Store or run the jobs now that the transaction is committed, and try all of them before raising."""

    def discarded(self, items: Sequence[Item], reason: Reason) -> None:
        """Hear that the jobs will never be stored. Does not raise."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One job that waits, and who takes it over."""

    sink: Sink[object]
    item: object


@dataclass(slots=True, eq=False)
class Frame:
    """What one transaction or savepoint has gathered. `dead`: rolled back already, but not yet left."""

    transaction: SessionTransaction
    entries: list[Entry] = field(default_factory=list)
    written: set[sa.Engine] = field(default_factory=set)
    committed: bool = False
    dead: bool = False


class Ledger:
    """The frames of one session's transaction, outermost first. Empty while none is open."""

    __slots__ = ("__weakref__", "connections", "discarded", "frames", "placed", "unseen")

    def __init__(self) -> None:
        self.clear()

    def __del__(self) -> None:
        # Nobody hears of a session that is let go of with its transaction open, but its jobs must not go silently.
        tell_discarded(self._all_entries(), Reason.DROPPED)

    def clear(self) -> None:
        """Forget everything, as before the first transaction."""
        self.frames: list[Frame] = []
        self.connections: dict[sa.Engine, sa.Connection] = {}
        self.placed: list[Entry] = []
        self.discarded: list[Entry] = []
        self.unseen = False

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that can still commit."""
        return bool(self.frames) and not self.frames[0].dead

    @property
    def has_entries(self) -> bool:
        """Whether any job waits."""
        return any(frame.entries for frame in self.frames)

    @property
    def has_written(self) -> bool:
        """Whether anything that can still be committed was written. Unknown counts as written."""
        return self.is_open and (self.unseen or any(frame.written for frame in self.frames))

    @property
    def written(self) -> set[sa.Engine]:
        """The engines that were written through, as far as it is known."""
        return {engine for frame in self.frames for engine in frame.written} if self.is_open else set()

    def entries(self) -> list[Entry]:
        """The jobs that wait and can still be committed, in order."""
        return [entry for frame in self.frames for entry in frame.entries if not frame.dead]

    def begin(self, transaction: SessionTransaction) -> None:
        """Open a frame for a transaction or savepoint that begins."""
        if transaction.parent is None and self.frames:
            self.end()  # another listener failed on the way, and the end was not heard
        self.frames.append(Frame(transaction))

    def adopt(self, innermost: SessionTransaction | None) -> None:
        """Open the frames of a transaction whose beginning was not seen."""
        self.clear()
        self.unseen = True
        while innermost is not None:
            if innermost.nested or innermost.parent is None:
                self.frames.insert(0, Frame(innermost))
            innermost = innermost.parent

    def defer(self, entries: Iterable[Entry]) -> None:
        """Let the jobs wait in the innermost frame that can still be committed."""
        living = [frame for frame in self.frames if not frame.dead] or self.frames
        living[-1].entries.extend(entries)

    def note_rollback(self) -> None:
        """The innermost frame is rolled back; it stays open until it is left."""
        frame = self.frames[-1]
        frame.dead = True
        frame.written.clear()
        self.discarded += frame.entries
        frame.entries = []

    def end_savepoint(self) -> None:
        """Close the innermost frame: its jobs pass to the frame around it, or are discarded."""
        frame = self.frames.pop()
        if not frame.committed:
            self.discarded += frame.entries
            return
        self.frames[-1].entries += frame.entries
        self.frames[-1].written |= frame.written

    def place(self, connection: sa.Connection) -> None:
        """Store what can be stored through the connection that is about to commit.

        Only if the transaction wrote through its engine and no other: with two of them no commit covers both, and
        one that only read might be refused for becoming a writer.
        """
        root = self.frames[0] if self.frames else None
        if root is not None and root.entries and not self.unseen and root.written == {connection.engine}:
            self._store(connection, root)

    def end(self) -> None:
        """Close the outermost frame and see to its jobs. The ledger is empty before any sink is called."""
        root = self.frames[0]
        if root.committed and root.entries:
            self._store_in_outer(root)
        lost, discarded, placed = self._all_entries(), self.discarded, self.placed
        self.clear()
        if not root.committed:
            tell_discarded(lost, Reason.ROLLED_BACK if root.dead else Reason.CLOSED)
            return
        tell_discarded(discarded, Reason.SAVEPOINT)
        for sink, items in _by_sink(placed):
            sink.committed(items)
        release(root.entries)

    def _all_entries(self) -> list[Entry]:
        waiting = [entry for frame in self.frames for entry in frame.entries]
        return [*self.discarded, *self.placed, *waiting]

    def _store(self, connection: sa.Connection, frame: Frame) -> None:
        fitting = [entry for entry in frame.entries if entry.sink.shares(entry.item, connection.engine)]
        for sink, items in _by_sink(fitting):
            sink.within(connection, items)
        frame.entries = [entry for entry in frame.entries if entry not in fitting]
        self.placed += fitting

    def _store_in_outer(self, root: Frame) -> None:
        """Store the jobs in the transaction that goes on around the session's, where there is one."""
        if self.unseen:
            return
        for connection in self.connections.values():
            goes_on = not connection.closed and connection.in_transaction()
            if goes_on and root.written <= {connection.engine}:
                try:
                    self._store(connection, root)
                except BaseException:
                    lost = self._all_entries()
                    self.clear()
                    tell_discarded(lost, Reason.REFUSED)
                    raise


def tell_discarded(entries: Sequence[Entry], reason: Reason) -> None:
    """Tell each sink in one call which of its jobs are gone."""
    for sink, items in _by_sink(entries):
        sink.discarded(items, reason)


def release(entries: Sequence[Entry]) -> None:
    """Hand the jobs to their sinks. All are tried, then what went wrong is raised as one error."""
    errors: list[Exception] = []
    groups = _by_sink(entries)
    while groups:
        sink, items = groups.pop(0)
        try:
            sink.after(items)
        except Exception as error:  # a job that runs inline may raise anything, and the others must not suffer
            errors.append(error)
        except BaseException:
            for other, left in groups:
                other.discarded(left, Reason.CUT_SHORT)
            raise
    _raise_together(errors)


def _by_sink(entries: Iterable[Entry]) -> list[tuple[Sink[object], list[object]]]:
    groups: dict[int, tuple[Sink[object], list[object]]] = {}
    for entry in entries:
        groups.setdefault(id(entry.sink), (entry.sink, []))[1].append(entry.item)
    return list(groups.values())


def _raise_together(errors: Sequence[Exception]) -> None:
    if not errors:
        return
    if len(errors) == 1:
        raise errors[0]
    failures = [error for error in errors if isinstance(error, PushFailed)]
    raise PushFailed(
        " ".join(str(error) for error in errors),
        packages=[package for error in failures for package in error.packages],
        ids=[id_ for error in failures for id_ in error.ids],
        causes=errors,
    ) from errors[0]
