"""What MySQL and MariaDB do with many rows in one statement: settle what is done, and reserve what is popped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from ...envelope import Ack, Settlement
from .bell import Bell
from .following import Following
from .popping import APART, Popping
from .remembering import Memory
from .rows import JobRow
from .schema import RESERVED, jobs
from .settling import Settling, as_row
from .statements import Compiler, OwnTransaction, constant, padded, parameter, places

_HOLDER = parameter("holder", sa.String)


class MysqlSettling(Settling):
    """Settles all that is done of one pop in two statements."""

    def __init__(
        self, compile_: Compiler, memory: Memory, bell: Bell, following: Following, *, retry_after: float
    ) -> None:
        super().__init__(compile_, memory, bell, following, retry_after=retry_after)
        kind = sa.func.concat(sa.literal_column("'ack '"), jobs.c.seq, sa.literal_column("':'"), jobs.c.token)
        self._note_ends = cache(lambda amount: memory.noting_end(*_held(amount), settlement=kind))
        self._live = cache(lambda amount: compile_(compile_.dialect.holding(_live(amount))))
        self._remove_all = cache(lambda amount: compile_(sa.delete(jobs).where(*_held(amount))))

    def end_tied(self, transaction: OwnTransaction, acks: Sequence[Ack]) -> Sequence[Ack]:
        """End the live deliveries of jobs with ties, and give those that were ended by this."""
        live: set[object] = set()
        for holder, held in _by_holder(acks).items():
            rows = {"holder": holder, **padded("seq", held)}
            live |= {(seq, holder) for (seq,) in transaction.rows(self._live(len(rows) - 1), rows)}
        ended = [ack for ack in acks if _receipt_of(ack) in live]
        self._ack(transaction, ended)
        return ended

    def _ack(self, transaction: OwnTransaction, acks: Sequence[Ack]) -> list[Settlement]:
        noted = 0
        for holder, held in _by_holder(acks).items():
            rows = {"holder": holder, **padded("seq", held)}
            noted += transaction.run(self._note_ends(len(rows) - 1), rows)
            transaction.run(self._remove_all(len(rows) - 1), rows)
        return [] if noted == len(acks) else self.unknown(transaction, acks)


def _receipt_of(ack: Ack) -> tuple[object, object]:
    row = as_row("ack", ack.reservation)
    return row["row_seq"], row["holder"]


def _by_holder(acks: Sequence[Ack]) -> dict[object, list[object]]:
    numbers: dict[object, list[object]] = defaultdict(list)
    for ack in acks:
        seq, holder = _receipt_of(ack)
        numbers[holder].append(seq)
    return numbers


class MysqlPopping(Popping):
    """Reserves all that is taken in one statement."""

    def __init__(self, compile_: Compiler, *, retry_after: float) -> None:
        super().__init__(compile_, retry_after=retry_after)
        self._reserve_all = cache(lambda amount: compile_(_reserve(amount)))

    def _hold(self, transaction: OwnTransaction, taken: Sequence[JobRow], token: str, lease: float) -> None:
        rows = padded("seq", [row.seq for row in taken])
        held = {"lease": lease, "holder": token, "is_alone": len(taken) == 1}
        transaction.run(self._reserve_all(len(rows)), {**rows, **held})


def _held(amount: int) -> list[sa.ColumnElement[bool]]:
    # A sum is no comparison that would tempt the server to an index other than that of the numbers.
    is_reserved = jobs.c.state + constant(0) == constant(RESERVED)
    return [jobs.c.seq.in_(places("seq", amount, sa.BigInteger)), jobs.c.token == _HOLDER, is_reserved]


def _live(amount: int) -> sa.Select[Any]:
    return sa.select(jobs.c.seq).where(*_held(amount))


def _reserve(amount: int) -> sa.Update:
    numbers = places("seq", amount, sa.BigInteger)
    place = sa.func.field(jobs.c.seq, *numbers, type_=sa.Double) - constant(1)
    values = {
        "state": constant(RESERVED),
        "at": parameter("lease", sa.Double) + place * sa.literal_column(repr(APART), sa.Double),
        "token": _HOLDER,
        "alone": parameter("is_alone", sa.Boolean),
        "attempts": jobs.c.attempts + constant(1),
    }
    return sa.update(jobs).where(jobs.c.seq.in_(numbers)).values(**values)
