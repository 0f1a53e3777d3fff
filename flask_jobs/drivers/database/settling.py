"""The ends of deliveries: fenced by the receipt, whole or not at all, and known again when they are repeated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import cache, cached_property
from typing import Any

import sqlalchemy as sa

from ...envelope import Ack, Fail, Hook, Progress, Release, Reservation, Settled, Settlement
from .bell import Bell
from .bookings import Bookings
from .ended import Ended
from .following import Following
from .keys import digest_of
from .popping import APART
from .pushing import select_head
from .remembering import Memory
from .rows import JOB_COLUMNS, counter_parameters, dump_progress, error_parameters, history_after, job_row
from .schema import COUNTERS, DELAYED, READY, RESERVED, failed, jobs
from .statements import Compiler, OwnTransaction, constant, instant_parameters, padded, parameter, places

# Named by its receipt, a delivery is live as long as nobody else has been given the job.
_HELD = (
    jobs.c.seq == parameter("row_seq", sa.BigInteger),
    jobs.c.token == parameter("holder", sa.String),
    jobs.c.state == constant(RESERVED),
)


class Settling:
    """Applies settlements and everything else that a receipt gives a right to."""

    def __init__(
        self, compile_: Compiler, memory: Memory, bell: Bell, following: Following, *, retry_after: float
    ) -> None:
        self._retry_after = retry_after
        self._compile = compile_
        self._following = following
        self._bell = bell
        self._memory = memory
        self._note_end = memory.noting_end(*_HELD)
        self._note_ends = cache(lambda amount: memory.noting_end(*_all_held(amount), settlement=_acked(compile_)))
        self._live = cache(lambda amount: compile_(compile_.dialect.holding(_live(amount))))
        self._remove_all = cache(lambda amount: compile_(sa.delete(jobs).where(*_all_held(amount))))
        self._note_release = memory.noting_release(*_HELD)
        self._remove = compile_(sa.delete(jobs).where(*_HELD))
        self._put_back = compile_(_put_back(compile_))
        self._record = compile_(_record(compile_))
        self._renew = compile_(_renew(compile_))
        self._note_progress = compile_(
            sa.update(jobs).where(*_HELD).values(progress=parameter("progress_now", sa.Text))
        )
        self._give_back_key = compile_(sa.update(jobs).where(*_HELD).values(unique_key=sa.null(), key_until=sa.null()))
        self._held_by = compile_(compile_.dialect.holding(_held_by(jobs.c.seq, jobs.c.id, jobs.c.queue)))
        self._look_at_held = compile_(_held_by(*JOB_COLUMNS))
        self._recover = compile_(_recover())
        self._head = compile_(select_head())

    @cached_property
    def _bookings(self) -> Bookings:
        return Bookings(self._compile)

    def settle(self, transaction: OwnTransaction, settlements: Sequence[Settlement]) -> Settled:
        """Apply the settlements whose deliveries are live, with what follows, and say which came too late."""
        acks = [settlement for settlement in settlements if isinstance(settlement, Ack)]
        stale = self._ack(transaction, [ack for ack in acks if not _is_tied(ack)])
        ended: list[Ack | Fail] = []
        if tied := [ack for ack in acks if _is_tied(ack)]:
            ended += self.end_tied(transaction, tied)
            stale += self.unknown(transaction, _without(tied, ended))
        for settlement in settlements:
            match settlement:
                case Release() if not self._release(transaction, settlement):
                    stale.append(settlement)
                case Fail():
                    if self._fail(transaction, settlement):
                        ended.append(settlement)
                    elif not self._was_applied(transaction, settlement):
                        stale.append(settlement)
                case _:
                    pass
        followed = self._following.tell(transaction, [one for one in map(Ended.by, ended) if one is not None])
        self._bell.ring(
            transaction, {one.reservation.envelope.queue for one in settlements if isinstance(one, Release)}
        )
        self._memory.prune(transaction, len(settlements))
        return Settled(tuple(stale), tuple(followed))

    def renew(self, transaction: OwnTransaction, reservations: Sequence[Reservation]) -> list[Reservation]:
        """Extend the live leases, and return the deliveries whose lease is over."""
        return [
            reservation
            for place, reservation in enumerate(reservations)
            if not transaction.run(self._renew, {**_receipt(reservation), "seconds": self._retry_after + place * APART})
        ]

    def note_progress(self, transaction: OwnTransaction, reservation: Reservation, progress: Progress) -> bool:
        """Store the progress beside the job, if the delivery is live."""
        parameters = {**_receipt(reservation), "progress_now": dump_progress(progress)}
        return transaction.run(self._note_progress, parameters) == 1

    def give_back_key(self, transaction: OwnTransaction, reservation: Reservation) -> bool:
        """Give back the unique key of the running job, if the delivery is live."""
        return transaction.run(self._give_back_key, _receipt(reservation)) == 1

    def recover(self, transaction: OwnTransaction, token: str, keep: Collection[str]) -> int:
        """Put back at the head of their queues what the token holds and is not kept, in the order of the pop."""
        held = transaction.rows(self._held_by, {"holder": token})
        lost = [(seq, queue) for seq, job_id, queue in held if job_id not in keep]
        # The last one first, each before all others.
        for seq, queue in reversed(lost):
            head = transaction.rows(self._head, {"queue": queue})[0][0]
            transaction.run(self._recover, {"row_seq": seq, "head": head})
        self._bell.ring(transaction, {queue for _, queue in lost})
        return len(lost)

    def held(self, transaction: OwnTransaction, token: str, now: float) -> list[Reservation]:
        """The deliveries that the token holds, in the order of the pop, or of the renewals if there were any."""
        rows = map(job_row, transaction.rows(self._look_at_held, {"holder": token}))
        return [row.delivery(token, now) for row in rows]

    def _ack(self, transaction: OwnTransaction, acks: Sequence[Ack]) -> list[Settlement]:
        noted = 0
        for holder, numbers in _by_holder(acks).items():
            rows = {"holder": holder, **padded("seq", numbers)}
            noted += transaction.run(self._note_ends(len(rows) - 1), rows)
            transaction.run(self._remove_all(len(rows) - 1), rows)
        return [] if noted == len(acks) else self.unknown(transaction, acks)

    def end_tied(self, transaction: OwnTransaction, acks: Sequence[Ack]) -> Sequence[Ack]:
        """End the live deliveries of jobs with ties, and give those that were ended by this."""
        live: set[object] = set()
        for holder, numbers in _by_holder(acks).items():
            rows = {"holder": holder, **padded("seq", numbers)}
            live |= {f"{seq}:{holder}" for (seq,) in transaction.rows(self._live(len(rows) - 1), rows)}
        ended = [ack for ack in acks if ack.reservation.receipt in live]
        self._ack(transaction, ended)
        return ended

    def unknown(self, transaction: OwnTransaction, acks: Sequence[Ack]) -> list[Settlement]:
        """Those that have never been applied."""
        return [ack for ack in acks if not self._was_applied(transaction, ack)]

    def _release(self, transaction: OwnTransaction, release: Release) -> bool:
        row = {
            **as_row("release", release.reservation),
            **instant_parameters("due", release.due),
            **{f"{name}_then": value for name, value in counter_parameters(release.counters).items()},
            "past": history_after(release.reservation, release.entry),
        }
        if not transaction.run(self._note_release, row):
            return self._was_applied(transaction, release)
        transaction.run(self._put_back, row)
        return True

    def _fail(self, transaction: OwnTransaction, fail: Fail) -> bool:
        """Record the failure, and say whether this has ended the job."""
        row = {
            **as_row("fail", fail.reservation),
            **error_parameters(fail.error),
            **counter_parameters(fail.counters),
            "past": history_after(fail.reservation, fail.entry),
            # As it was pushed: one that was given back early is taken again by a retry.
            "key_again": digest_of(fail.reservation.envelope.ties),
        }
        if not transaction.run(self._note_end, row):
            return False
        transaction.run(self._record, row)
        transaction.run(self._remove, row)
        self._bookings.free(transaction, fail.reservation.envelope.id)
        return True

    def _was_applied(self, transaction: OwnTransaction, settlement: Settlement) -> bool:
        reservation = settlement.reservation
        kind = f"{type(settlement).__name__.lower()} {reservation.receipt}"
        return self._memory.knows(transaction, reservation.envelope.id, kind)


def _is_tied(ack: Ack) -> bool:
    return ack.reservation.envelope.ties is not None


def _without(acks: Sequence[Ack], ended: Sequence[Ack | Fail]) -> list[Ack]:
    receipts = {one.reservation.receipt for one in ended}
    return [ack for ack in acks if ack.reservation.receipt not in receipts]


def _receipt(reservation: Reservation) -> dict[str, object]:
    seq, _, holder = reservation.receipt.partition(":")
    return {"row_seq": int(seq), "holder": holder}


def as_row(kind: str, reservation: Reservation) -> dict[str, object]:
    """What names the delivery and its end."""
    return {**_receipt(reservation), "settlement": f"{kind} {reservation.receipt}"}


def _by_holder(acks: Sequence[Ack]) -> dict[str, list[int]]:
    """The numbers of the deliveries that each pop holds."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for ack in acks:
        seq, _, holder = ack.reservation.receipt.partition(":")
        numbers[holder].append(int(seq))
    return numbers


def _all_held(amount: int) -> list[sa.ColumnElement[bool]]:
    """What is `_HELD`, for many deliveries of one pop."""
    # A sum is no comparison that would tempt the server to an index other than that of the numbers.
    is_reserved = jobs.c.state + constant(0) == constant(RESERVED)
    numbers = places("seq", amount, sa.BigInteger)
    return [jobs.c.seq.in_(numbers), jobs.c.token == parameter("holder", sa.String), is_reserved]


def _acked(compile_: Compiler) -> sa.ColumnElement[str]:
    """What `as_row` calls the ack of a delivery."""
    ack, colon = sa.literal_column("'ack '", sa.String), sa.literal_column("':'", sa.String)
    return compile_.dialect.joined(ack, jobs.c.seq, colon, jobs.c.token)


def _live(amount: int) -> sa.Select[Any]:
    return sa.select(jobs.c.seq).where(*_all_held(amount))


def _put_back(compile_: Compiler) -> sa.Update:
    return (
        sa.update(jobs)
        .where(*_HELD)
        .values(
            state=constant(DELAYED),
            at=compile_.instant("due"),
            token=sa.null(),
            progress=sa.null(),
            history=parameter("past", sa.Text),
            **{name: parameter(f"{name}_then", sa.Integer) for name in COUNTERS},
        )
    )


def _record(compile_: Compiler) -> sa.Insert:
    kept = ("id", "name", "queue", "body", "pushed_at", "retry_until", "retried_from", "ties")
    written: dict[str, sa.ColumnElement[Any]] = {
        **{name: jobs.c[name] for name in kept},
        **{name: parameter(name, sa.Integer) for name in COUNTERS},
        **{f"error_{part}": parameter(f"error_{part}", sa.Text) for part in ("type", "message", "traceback", "causes")},
        "history": parameter("past", sa.Text),
        "unique_key": parameter("key_again", sa.String),
        "failed_at": compile_.now,
        "hook": sa.literal_column(f"'{Hook.PENDING.value}'", sa.String),
    }
    return sa.insert(failed).from_select(list(written), sa.select(*written.values()).where(*_HELD))


def _renew(compile_: Compiler) -> sa.Update:
    lease = compile_.now + parameter("seconds", sa.Double)
    return sa.update(jobs).where(*_HELD, jobs.c.at > compile_.now).values(at=lease)


def _held_by(*columns: sa.Column[Any]) -> sa.Select[Any]:
    return (
        sa.select(*columns)
        .where(jobs.c.state == constant(RESERVED), jobs.c.token == parameter("holder", sa.String))
        .order_by(jobs.c.at, jobs.c.seq)
    )


def _recover() -> sa.Update:
    return (
        sa.update(jobs)
        .where(jobs.c.seq == parameter("row_seq", sa.BigInteger))
        .values(
            state=constant(READY),
            at=parameter("head", sa.Double),
            token=sa.null(),
            progress=sa.null(),
            attempts=jobs.c.attempts - constant(1),
        )
    )
