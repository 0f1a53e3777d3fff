"""How the deliveries of jobs are named in SQL, and their rows held, always in the order of their numbers.

Whoever holds rows in another order may hold one that somebody waits for who holds one that he waits for himself, and
the server takes its time to find that out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from ...envelope import Reservation
from .schema import RESERVED, jobs
from .statements import Compiler, OwnTransaction, constant, padded, parameter, places

# Named by its receipt, a delivery is live as long as nobody else has been given the job.
HELD = (
    jobs.c.seq == parameter("row_seq", sa.BigInteger),
    jobs.c.token == parameter("holder", sa.String),
    jobs.c.state == constant(RESERVED),
)


class Holding:
    """Holds rows of jobs until a transaction ends."""

    def __init__(self, compile_: Compiler) -> None:
        self._live = cache(lambda amount: compile_(compile_.dialect.holding(_in_order(*all_held(amount)))))
        self._all = cache(lambda amount: compile_(compile_.dialect.holding(_in_order(_named(amount)))))

    def live(self, transaction: OwnTransaction, holder: str, numbers: Sequence[int]) -> set[int]:
        """Hold those deliveries of a pop that are live, and say which they are."""
        if not numbers:
            return set()
        rows = {"holder": holder, **padded("seq", numbers)}
        return {seq for (seq,) in transaction.rows(self._live(len(rows) - 1), rows)}

    def in_order(self, transaction: OwnTransaction, numbers: Sequence[int]) -> None:
        """Hold these rows, whatever will be done with them one after the other."""
        rows = padded("seq", numbers)
        transaction.rows(self._all(len(rows)), rows)


def number_of(reservation: Reservation) -> int:
    """The number of the row."""
    return int(reservation.receipt.partition(":")[0])


def holder_of(reservation: Reservation) -> str:
    """The token of the pop."""
    return reservation.receipt.partition(":")[2]


def receipt(reservation: Reservation) -> dict[str, Any]:
    """The parameters of `HELD`."""
    seq, _, holder = reservation.receipt.partition(":")
    return {"row_seq": int(seq), "holder": holder}


def all_held(amount: int) -> list[sa.ColumnElement[bool]]:
    """What is `HELD`, for many deliveries of one pop."""
    # A sum is no comparison that would tempt the server to an index other than that of the numbers.
    is_reserved = jobs.c.state + constant(0) == constant(RESERVED)
    return [_named(amount), jobs.c.token == parameter("holder", sa.String), is_reserved]


def _named(amount: int) -> sa.ColumnElement[bool]:
    return jobs.c.seq.in_(places("seq", amount, sa.BigInteger))


def _in_order(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    return sa.select(jobs.c.seq).where(*conditions).order_by(jobs.c.seq)
