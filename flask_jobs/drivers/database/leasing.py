"""The leases of deliveries: extended, looked at, and put back by the token of the pop that made them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa

from ...envelope import Reservation
from .bell import Bell
from .deliveries import HELD, Holding, number_of, receipt
from .popping import APART
from .pushing import select_head
from .rows import JOB_COLUMNS, job_row
from .schema import READY, RESERVED, jobs
from .statements import Compiler, OwnTransaction, constant, parameter


class Leasing:
    """Keeps leases alive, and ends those that nobody is to have."""

    def __init__(self, compile_: Compiler, bell: Bell, *, retry_after: float) -> None:
        self._bell = bell
        self._retry_after = retry_after
        self._holding = Holding(compile_)
        self._renew = compile_(_renew(compile_))
        self._held_by = compile_(_held_by(jobs.c.seq, jobs.c.id, jobs.c.queue))
        self._look_at_held = compile_(_held_by(*JOB_COLUMNS))
        self._recover = compile_(_recover())
        self._head = compile_(select_head())

    def renew(self, transaction: OwnTransaction, reservations: Sequence[Reservation]) -> list[Reservation]:
        """Extend the live leases, and return the deliveries whose lease is over."""
        if len(reservations) > 1:
            self._holding.in_order(transaction, [number_of(reservation) for reservation in reservations])
        return [
            reservation
            for place, reservation in enumerate(reservations)
            if not transaction.run(self._renew, {**receipt(reservation), "seconds": self._retry_after + place * APART})
        ]

    def recover(self, transaction: OwnTransaction, token: str, keep: Collection[str]) -> int:
        """Put back at the head of their queues what the token holds and is not kept, in the order of the pop."""
        found = transaction.rows(self._held_by, {"holder": token})
        to_free = [(seq, queue) for seq, job_id, queue in found if job_id not in keep]
        # Of what is kept, others are settling some, and are not to be waited for.
        held = self._holding.live(transaction, token, [seq for seq, _ in to_free])
        lost = [(seq, queue) for seq, queue in to_free if seq in held]
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


def _renew(compile_: Compiler) -> sa.Update:
    lease = compile_.now + parameter("seconds", sa.Double)
    return sa.update(jobs).where(*HELD, jobs.c.at > compile_.now).values(at=lease)


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
