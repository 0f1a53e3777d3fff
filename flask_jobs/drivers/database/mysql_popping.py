"""What MySQL and MariaDB do with many rows in one statement: reserve what is popped."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import sqlalchemy as sa

from .popping import APART, Popping
from .rows import JobRow
from .schema import RESERVED, jobs
from .statements import Compiler, OwnTransaction, constant, padded, parameter, places

_HOLDER = parameter("holder", sa.String)


class MysqlPopping(Popping):
    """Reserves all that is taken in one statement."""

    def __init__(self, compile_: Compiler, *, retry_after: float) -> None:
        super().__init__(compile_, retry_after=retry_after)
        self._reserve_all = cache(lambda amount: compile_(_reserve(amount)))

    def _hold(self, transaction: OwnTransaction, taken: Sequence[JobRow], token: str, lease: float) -> None:
        rows = padded("seq", [row.seq for row in taken])
        held = {"lease": lease, "holder": token, "is_alone": len(taken) == 1}
        transaction.run(self._reserve_all(len(rows)), {**rows, **held})


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
