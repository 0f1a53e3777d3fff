"""Reserving what is due, and taking in again what was given out and whose lease ran out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from ... import history
from ...envelope import Popped, Reclaimed, Room
from ..transitions import RECLAIMED_AT_ONCE, in_turn, taken_in
from .rows import JOB_COLUMNS, JobRow, job_row
from .schema import DELAYED, READY, RESERVED, jobs, paused
from .statements import Compiler, OwnTransaction, Row, constant, limited, parameter
from .text import Parameters, Statement

# The order in which jobs were popped is told by their leases: each ends so much later than the one before.
APART = 1e-6
"""The seconds between the leases of jobs that are popped together."""

_QUEUE = parameter("queue", sa.String)
_NOW = parameter("now", sa.Double)
_FOREVER = sa.literal_column("1e18", sa.Double)

Read = Callable[[Statement, Parameters], Sequence[Row]]
"""Gives the rows that a statement finds."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a plain read shows of some queues: whether a pop would find work, and if not, when it might."""

    now: float
    has_work: bool
    next_due: float | None

    def popped(self) -> Popped:
        """The answer of a pop that finds nothing."""
        return Popped((), self.now, self.next_due)


@dataclass(frozen=True, slots=True)
class _Shown:
    """What a plain read shows of one queue: which lanes have something to take now, and what falls due when."""

    queue: str
    now: float
    has_ready: bool = False
    has_due: bool = False
    has_expired: bool = False
    dues: tuple[float, ...] = ()


class Popping:
    """Takes jobs in the order of their queues, and within a queue from two lanes in turn.

    The lanes are the jobs pushed without delay and the ones that have waited out a delay; neither makes the other
    wait. What stands at the head of its queue (pushed to the front, or recovered) comes before both.
    """

    def __init__(self, compile_: Compiler, *, retry_after: float) -> None:
        self.retry_after = retry_after
        self._look = compile_(_look(compile_))
        self._ready = compile_(compile_.dialect.taking(_lane(READY)))
        self._due = compile_(compile_.dialect.taking(_lane(DELAYED).where(jobs.c.at <= _NOW)))
        self._expired = compile_(compile_.dialect.taking(_lane(RESERVED).where(jobs.c.at <= _NOW)))
        self._reserve = compile_(_reserve())
        self._reclaim = compile_(_reclaim())
        self.due_first: dict[str, bool] = {}

    def look(self, read: Read, queues: Sequence[str]) -> Look:
        """Look at the queues without touching anything."""
        shown = [self._show(read, queue) for queue in queues]
        dues = [due for each in shown for due in each.dues if due < 1e18]
        has_work = any(each.has_ready or each.has_due or each.has_expired for each in shown)
        return Look(max((each.now for each in shown), default=0.0), has_work, min(dues, default=None))

    def take(self, transaction: OwnTransaction, queues: Sequence[str], token: str, room: Room) -> Popped:
        """Take in what expired, then reserve what there is room for."""
        shown = [self._show(transaction.rows, queue) for queue in queues]
        now = max((each.now for each in shown), default=0.0)
        reclaimed = self._take_in(transaction, [each.queue for each in shown if each.has_expired], now)
        taken = self._choose(transaction, shown, room, now)
        if not taken:
            look = self.look(transaction.rows, queues)
            return Popped((), now, look.next_due, tuple(reclaimed))
        self._hold(transaction, taken, token, now + self.retry_after)
        return Popped(tuple([row.reservation(token, now) for row in taken]), now, None, tuple(reclaimed))

    def _show(self, read: Read, queue: str) -> _Shown:
        now, ready, delayed, reserved, held_until = read(self._look, {"queue": queue})[0]
        if held_until > now:
            return _Shown(queue, now, dues=(held_until,))
        # Text is greater than every number, in SQL as well: what has been overwritten with it never falls due.
        due, expiry = (at if isinstance(at, int | float) else None for at in (delayed, reserved))
        return _Shown(
            queue,
            now,
            has_ready=ready is not None,
            has_due=due is not None and due <= now,
            has_expired=expiry is not None and expiry <= now,
            dues=tuple([at for at in (due, expiry) if at is not None]),
        )

    def _hold(self, transaction: OwnTransaction, taken: Sequence[JobRow], token: str, lease: float) -> None:
        alone = len(taken) == 1
        rows = [
            {"row_seq": row.seq, "lease": lease + place * APART, "holder": token, "is_alone": alone}
            for place, row in enumerate(taken)
        ]
        transaction.run_many(self._reserve, rows)

    def _choose(self, transaction: OwnTransaction, shown: Sequence[_Shown], room: Room, now: float) -> list[JobRow]:
        taken: list[JobRow] = []
        used = 0.0
        for one in shown:
            for row in self._waiting(transaction, one, room.limit - len(taken), now):
                expected = room.expected(row.name, row.counters)
                if not room.fits(expected, taken=len(taken), used=used):
                    return taken
                taken.append(row)
                used += expected
                if len(taken) >= room.limit:
                    return taken
        return taken

    def _waiting(self, transaction: OwnTransaction, one: _Shown, limit: int, now: float) -> Iterator[JobRow]:
        at = {"queue": one.queue, "now": now, "limit": limit}
        due_first = self.due_first.get(one.queue, False)
        # A lane in which nothing was seen is not asked. What has expired is due by now.
        ready = _read(transaction, self._ready, at) if one.has_ready else iter(())
        due = _read(transaction, self._due, at) if one.has_due or one.has_expired else iter(())
        for row in in_turn(ready, due, due_first=due_first):
            self.due_first[one.queue] = not due_first
            yield row

    def _take_in(self, transaction: OwnTransaction, queues: Sequence[str], now: float) -> list[Reclaimed]:
        expired: list[JobRow] = []
        for queue in queues:
            at = {"queue": queue, "now": now, "limit": RECLAIMED_AT_ONCE - len(expired)}
            expired += map(job_row, transaction.rows(self._expired, at))
        if expired:
            transaction.run_many(self._reclaim, [_reclaimed(row, now) for row in expired])
        return [Reclaimed(row.envelope, row.attempts, bool(row.alone)) for row in expired]


def _read(transaction: OwnTransaction, lane: Statement, at: Parameters) -> Iterator[JobRow]:
    """The lane's rows; a generator, so that nothing is read of a lane whose turn does not come."""
    yield from map(job_row, transaction.stream(lane, at))


def _reclaimed(row: JobRow, now: float) -> dict[str, object]:
    counters, entry = taken_in(row.counters, alone=bool(row.alone), now=now)
    past = history.load(row.history)
    return {
        "row_seq": row.seq,
        "due": now,
        "past": history.dump(history.extended(past, entry)),
        "attempts_then": counters.attempts,
        "interruptions_then": counters.interruptions,
    }


def _lane(state: int) -> sa.Select[Any]:
    is_paused = sa.exists().where(paused.c.queue == _QUEUE, sa.or_(paused.c.until.is_(None), paused.c.until > _NOW))
    lane = sa.select(*JOB_COLUMNS).where(jobs.c.state == constant(state), jobs.c.queue == _QUEUE, ~is_paused)
    return limited(lane.order_by(jobs.c.at, jobs.c.seq))


def _look(compile_: Compiler) -> sa.Select[Any]:
    def earliest(state: int) -> sa.ScalarSelect[Any]:
        of_state = (jobs.c.state == constant(state), jobs.c.queue == _QUEUE)
        return sa.select(sa.func.min(jobs.c.at)).where(*of_state).scalar_subquery()

    held_until = sa.select(sa.func.coalesce(paused.c.until, _FOREVER)).where(paused.c.queue == _QUEUE).scalar_subquery()
    return sa.select(
        compile_.now,
        earliest(READY),
        earliest(DELAYED),
        earliest(RESERVED),
        sa.func.coalesce(held_until, sa.literal_column("0.0", sa.Double)),
    )


def _reserve() -> sa.Update:
    return (
        sa.update(jobs)
        .where(jobs.c.seq == parameter("row_seq", sa.BigInteger))
        .values(
            state=constant(RESERVED),
            at=parameter("lease", sa.Double),
            token=parameter("holder", sa.String),
            alone=parameter("is_alone", sa.Boolean),
            attempts=jobs.c.attempts + constant(1),
        )
    )


def _reclaim() -> sa.Update:
    return (
        sa.update(jobs)
        .where(jobs.c.seq == parameter("row_seq", sa.BigInteger))
        .values(
            state=constant(DELAYED),
            at=parameter("due", sa.Double),
            token=sa.null(),
            progress=sa.null(),
            history=parameter("past", sa.Text),
            attempts=parameter("attempts_then", sa.Integer),
            interruptions=parameter("interruptions_then", sa.Integer),
        )
    )
