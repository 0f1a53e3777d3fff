"""The ends of deliveries: fenced by the receipt, whole or not at all, and known again when they are repeated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import sqlalchemy as sa

from ...envelope import Ack, Fail, Hook, Progress, Release, Reservation, Settled, Settlement
from .bell import Bell
from .bookings import Bookings
from .deliveries import HELD, Holding, all_held, holder_of, number_of, receipt
from .ended import Ended
from .following import Following
from .keys import digest_of
from .remembering import Memory
from .rows import counter_parameters, dump_progress, error_parameters, history_after
from .schema import COUNTERS, DELAYED, failed, jobs
from .statements import Compiler, OwnTransaction, constant, instant_parameters, padded, parameter


class Settling:
    """Applies settlements and everything else that a receipt gives a right to."""

    def __init__(self, compile_: Compiler, memory: Memory, bell: Bell, following: Following) -> None:
        self._compile = compile_
        self._following = following
        self._bell = bell
        self._memory = memory
        self._holding = Holding(compile_)
        self._note_end = memory.noting_end(*HELD)
        self._note_ends = cache(lambda amount: memory.noting_end(*all_held(amount), settlement=_acked(compile_)))
        self._remove_all = cache(lambda amount: compile_(sa.delete(jobs).where(*all_held(amount))))
        self._note_release = memory.noting_release(*HELD)
        self._remove = compile_(sa.delete(jobs).where(*HELD))
        self._put_back = compile_(_put_back(compile_))
        self._record = compile_(_record(compile_))
        self._note_progress = compile_(sa.update(jobs).where(*HELD).values(progress=parameter("progress_now", sa.Text)))
        self._give_back_key = compile_(sa.update(jobs).where(*HELD).values(unique_key=sa.null(), key_until=sa.null()))

    @cached_property
    def _bookings(self) -> Bookings:
        return Bookings(self._compile)

    def settle(self, transaction: OwnTransaction, settlements: Sequence[Settlement]) -> Settled:
        """Apply the settlements whose deliveries are live, with what follows, and say which came too late."""
        if _are_several_steps(settlements):
            self._holding.in_order(transaction, [number_of(one.reservation) for one in settlements])
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

    def note_progress(self, transaction: OwnTransaction, reservation: Reservation, progress: Progress) -> bool:
        """Store the progress beside the job, if the delivery is live."""
        parameters = {**receipt(reservation), "progress_now": dump_progress(progress)}
        return transaction.run(self._note_progress, parameters) == 1

    def give_back_key(self, transaction: OwnTransaction, reservation: Reservation) -> bool:
        """Give back the unique key of the running job, if the delivery is live."""
        return transaction.run(self._give_back_key, receipt(reservation)) == 1

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
            live |= {f"{seq}:{holder}" for seq in self._holding.live(transaction, holder, numbers)}
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


def _are_several_steps(settlements: Sequence[Settlement]) -> bool:
    """Whether these rows are not all changed by one statement, in the order of their numbers."""
    if len(settlements) < 2:
        return False
    pops = {holder_of(one.reservation) for one in settlements}
    return len(pops) > 1 or any(not isinstance(one, Ack) or _is_tied(one) for one in settlements)


def _without(acks: Sequence[Ack], ended: Sequence[Ack | Fail]) -> list[Ack]:
    receipts = {one.reservation.receipt for one in ended}
    return [ack for ack in acks if ack.reservation.receipt not in receipts]


def as_row(kind: str, reservation: Reservation) -> dict[str, Any]:
    """What names the delivery and its end."""
    return {**receipt(reservation), "settlement": f"{kind} {reservation.receipt}"}


def _by_holder(acks: Sequence[Ack]) -> dict[str, list[int]]:
    """The numbers of the deliveries that each pop holds."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for ack in acks:
        numbers[holder_of(ack.reservation)].append(number_of(ack.reservation))
    return numbers


def _acked(compile_: Compiler) -> sa.ColumnElement[str]:
    """What `as_row` calls the ack of a delivery."""
    ack, colon = sa.literal_column("'ack '", sa.String), sa.literal_column("':'", sa.String)
    return compile_.dialect.joined(ack, jobs.c.seq, colon, jobs.c.token)


def _put_back(compile_: Compiler) -> sa.Update:
    return (
        sa.update(jobs)
        .where(*HELD)
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
    return sa.insert(failed).from_select(list(written), sa.select(*written.values()).where(*HELD))
