"""Looking at what waits, taking single jobs out, emptying and holding back queues."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import sqlalchemy as sa

from ... import validation
from ...driver import PORTION, Clearable, Inspectable, Pausable
from ...stored import Sizes, State, StoredJob
from ...validation import is_queue_name, queue_name
from .access import Access
from .ended import removed
from .following import Following
from .remembering import Memory
from .retrying import repeated_if_overtaken
from .rows import JOB_COLUMNS, job_row
from .schema import DELAYED, READY, RESERVED, jobs, paused
from .statements import Compiler, OwnTransaction, constant, limited, parameter
from .text import Statement

_ID = parameter("job_id", sa.String)
_QUEUE = parameter("queue", sa.String)
_AFTER = parameter("after", sa.String)
_WAITS = jobs.c.state != constant(RESERVED)
_OF_QUEUE = jobs.c.queue == _QUEUE
_ROW = jobs.c.seq == parameter("row_seq", sa.BigInteger)


class Operators(Access, Inspectable, Clearable, Pausable):
    """What people do to queues, each step atomic and bounded."""

    memory: Memory
    following: Following

    def size(self, queue: str) -> Sizes:
        """How many jobs of the queue wait, are delayed, and are reserved."""
        queue_name(queue)
        with self.reading() as transaction:
            return Sizes(*transaction.rows(self._operating.sizes, {"queue": queue})[0])

    def queues(self) -> list[str]:
        """The names of all queues that hold a job or are paused, sorted; what can be no name is left out."""
        with self.reading() as transaction:
            names = {row[0] for row in transaction.rows(self._operating.paused, {})}
            for next_queue in self._operating.next_queues:
                names |= set(_walk(transaction, next_queue))
            return sorted(filter(is_queue_name, names))

    def jobs(
        self, queue: str, *, state: State | None = None, after: str | None = None, limit: int = 50
    ) -> list[StoredJob]:
        """A page of a queue's jobs by id; `after` is the last id of the page before."""
        queue_name(queue)
        with self.reading() as transaction:
            now = self.present(transaction)
            page = {"queue": queue, "after": after or "", "limit": limit, "now": now}
            rows = transaction.rows(self._operating.pages[state], page)
            return [job_row(row).stored_job(now) for row in rows]

    def find(self, job_id: str) -> StoredJob | None:
        """The stored job with this id, or None."""
        with self.reading() as transaction:
            rows = transaction.rows(self._operating.find, {"job_id": job_id})
            return job_row(rows[0]).stored_job(self.present(transaction)) if rows else None

    @repeated_if_overtaken
    def cancel(self, job_id: str) -> bool:
        """Remove a waiting job, and say whether it was there. A reserved one is not touched."""
        row = {"job_id": job_id, "settlement": None}
        with self.writing() as transaction:
            found = transaction.rows(self._operating.cancellable, row)
            if not found or not transaction.run(self._operating.note_cancelled, row):
                return False
            self.bookings.free(transaction, job_id)
            transaction.run(self._operating.cancel, row)
            self.following.tell(transaction, removed(found))
            return True

    @repeated_if_overtaken
    def clear(self, queue: str, *, limit: int = PORTION) -> int:
        """Remove up to `limit` waiting jobs; returns how many."""
        queue_name(queue)
        with self.writing() as transaction:
            found = transaction.rows(self._operating.clearable, {"queue": queue, "limit": min(limit, PORTION)})
            if not found:
                return 0
            rows = [{"row_seq": seq, "settlement": None} for seq, *_ in found]
            transaction.run_many(self._operating.note_cleared, rows)
            self.bookings.free(transaction, *[job_id for _, job_id, *_ in found])
            self.memory.prune(transaction, len(rows))
            cleared = transaction.run_many(self._operating.remove, rows)
            self.following.tell(transaction, removed([row[1:] for row in found]))
            return cleared

    @repeated_if_overtaken
    def pause(self, queue: str, *, seconds: float | None = None) -> None:
        """Give out nothing from the queue, for so many seconds or until `resume`."""
        queue_name(queue)
        lasting = None if seconds is None else validation.seconds(seconds, what="seconds")
        with self.writing() as transaction:
            transaction.run(self._operating.resume, {"queue": queue})
            transaction.run(self._operating.pause, {"queue": queue, "seconds": lasting})

    @repeated_if_overtaken
    def resume(self, queue: str) -> bool:
        """Give out jobs again; says whether the queue was paused."""
        queue_name(queue)
        with self.writing() as transaction:
            was_paused = bool(transaction.rows(self._operating.is_paused, {"queue": queue}))
            transaction.run(self._operating.resume, {"queue": queue})
            self.bell.ring(transaction, [queue])
            return was_paused

    def paused(self) -> Mapping[str, float | None]:
        """The paused queues, each with the instant its pause ends by itself, or None."""
        with self.reading() as transaction:
            return dict(transaction.rows(self._operating.paused, {}))

    @cached_property
    def _operating(self) -> _Statements:
        return _Statements(self.compile, self.memory)


class _Statements:
    def __init__(self, compile_: Compiler, memory: Memory) -> None:
        holding = compile_.dialect.holding
        is_held = sa.or_(paused.c.until.is_(None), paused.c.until > compile_.now)
        ties = (jobs.c.id, jobs.c.ties, jobs.c.retried_from)
        self.cancellable = compile_(holding(sa.select(*ties).where(jobs.c.id == _ID, _WAITS)))
        waiting = sa.select(jobs.c.seq, *ties).where(_OF_QUEUE, jobs.c.state.in_([constant(READY), constant(DELAYED)]))
        self.sizes = compile_(_sizes(compile_))
        self.next_queues = [compile_(_next_queue(state)) for state in (READY, DELAYED, RESERVED)]
        self.pages = {state: compile_(_page(state, compile_)) for state in (None, *State)}
        self.find = compile_(sa.select(*JOB_COLUMNS).where(jobs.c.id == _ID))
        self.note_cancelled = memory.noting_end(jobs.c.id == _ID, _WAITS)
        self.cancel = compile_(sa.delete(jobs).where(jobs.c.id == _ID, _WAITS))
        self.clearable = compile_(holding(limited(waiting)))
        self.note_cleared = memory.noting_end(_ROW)
        self.remove = compile_(sa.delete(jobs).where(_ROW))
        self.paused = compile_(sa.select(paused.c.queue, paused.c.until).where(is_held))
        self.is_paused = compile_(sa.select(paused.c.queue).where(paused.c.queue == _QUEUE, is_held))
        self.resume = compile_(sa.delete(paused).where(paused.c.queue == _QUEUE))
        until = compile_.now + parameter("seconds", sa.Double)
        self.pause = compile_(
            compile_.dialect.insert_new(
                paused, ["queue", "until"], sa.select(_QUEUE, until).where(sa.true()), unique=paused.c.queue
            )
        )


def _walk(transaction: OwnTransaction, next_queue: Statement) -> list[str]:
    """The queues of one state, each found by a step in the index, however many jobs lie between."""
    names: dict[str, None] = {}
    after = ""
    while (name := transaction.rows(next_queue, {"after": after})[0][0]) is not None:
        # A name that is no text is read as another one, which may stand anywhere in the order.
        if name in names:
            break
        names[name] = None
        after = name
    return list(names)


def _next_queue(state: int) -> sa.Select[Any]:
    return sa.select(sa.func.min(jobs.c.queue)).where(jobs.c.state == constant(state), jobs.c.queue > _AFTER)


def _sizes(compile_: Compiler) -> sa.Select[Any]:
    def count(*of: sa.ColumnElement[bool]) -> sa.ScalarSelect[Any]:
        return sa.select(sa.func.count()).select_from(jobs).where(_OF_QUEUE, *of).scalar_subquery()

    is_delayed = jobs.c.state == constant(DELAYED)
    due = count(is_delayed, jobs.c.at <= compile_.now)
    return sa.select(
        count(jobs.c.state == constant(READY)) + due,
        count(is_delayed, jobs.c.at > compile_.now),
        count(jobs.c.state == constant(RESERVED)),
    )


def _page(state: State | None, compile_: Compiler) -> sa.Select[Any]:
    is_delayed = jobs.c.state == constant(DELAYED)
    page = limited(sa.select(*JOB_COLUMNS).where(_OF_QUEUE, jobs.c.id > _AFTER).order_by(jobs.c.id))
    match state:
        case None:
            return page
        case State.READY:
            is_due = sa.and_(is_delayed, jobs.c.at <= parameter("now", sa.Double))
            return page.where(sa.or_(jobs.c.state == constant(READY), is_due))
        case State.DELAYED:
            return page.where(is_delayed, jobs.c.at > parameter("now", sa.Double))
        case State.RESERVED:
            return page.where(jobs.c.state == constant(RESERVED))
