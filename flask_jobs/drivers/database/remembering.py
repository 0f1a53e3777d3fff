"""What is remembered of jobs that have ended: ids that must not be stored again, and how deliveries were settled."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from .access import Access
from .schema import ended, jobs
from .statements import Compiler, Transaction, parameter
from .text import Parameters, Statement

_OFTEN = 100


class Memory:
    """Notes the ends of jobs and deliveries, and forgets them in small portions as others are noted.

    An id is remembered for `remember_ids` seconds from its push; how a delivery was settled for at least
    `retry_after` more, as long as a worker may repeat a settlement whose answer it did not get.
    """

    def __init__(self, compile_: Compiler, *, remember_ids: float, retry_after: float) -> None:
        self.remember_ids = remember_ids
        self._keep = max(remember_ids, retry_after)
        self._compile = compile_
        self._oldest = compile_(sa.select(sa.func.min(ended.c.seq)))
        self._forget = compile_(_forget(compile_, parameter("end", sa.BigInteger)))
        self._forget_at_once = compile_(_forget(compile_, _end()))
        self._find = compile_(
            sa.select(ended.c.settlement).where(
                ended.c.id == parameter("id", sa.String), ended.c.settlement == parameter("settlement", sa.String)
            )
        )
        self.using_up = compile_(_using_up(compile_, remember_ids))
        # Full at first, so that short-lived processes do their share.
        self._noted = _OFTEN

    def noting_end(self, *of: sa.ColumnElement[bool], settlement: sa.ColumnElement[str] | None = None) -> Statement:
        """A statement that notes the end of each job of which these conditions hold.

        How it ended is the parameter `settlement`, unless an expression is given for it.
        """
        until = jobs.c.pushed_at + sa.literal_column(repr(self.remember_ids), sa.Double)
        return self._noting(until, of, parameter("settlement", sa.String) if settlement is None else settlement)

    def noting_release(self, *of: sa.ColumnElement[bool]) -> Statement:
        """A statement that notes the end of a delivery alone: the id itself is still in use."""
        return self._noting(sa.literal_column("0.0", sa.Double), of, parameter("settlement", sa.String))

    def knows(self, transaction: Transaction, job_id: str, settlement: str) -> bool:
        """Whether this very settlement has been applied."""
        return bool(transaction.rows(self._find, {"id": job_id, "settlement": settlement}))

    def forget_if_due(self, access: Access, noted: int) -> None:
        """Do what `prune` does in a transaction of its own."""
        if (portion := self._portion(noted, always=False)) is None:
            return
        if self._compile.dialect.reckons_first:
            access.change_alone(self._forget_at_once, {"keep": self._keep, "portion": portion}, lasting=False)
            return
        with access.writing(lasting=False) as transaction:
            self._forget_from_oldest(transaction, portion)

    def prune(self, transaction: Transaction, noted: int, *, always: bool = False) -> None:
        """Forget what is too old, a little more than is being noted, every hundred notes or so."""
        portion = self._portion(noted, always=always)
        if portion is None:
            return
        # Counted from the oldest, so that it never looks at more rows than it may delete.
        if self._compile.dialect.reckons_first:
            transaction.run(self._forget_at_once, {"keep": self._keep, "portion": portion})
            return
        self._forget_from_oldest(transaction, portion)

    def _forget_from_oldest(self, transaction: Transaction, portion: int) -> None:
        oldest = transaction.rows(self._oldest, {})[0][0]
        if oldest is not None:
            transaction.run(self._forget, {"keep": self._keep, "end": oldest + portion})

    def _portion(self, noted: int, *, always: bool) -> int | None:
        self._noted += noted
        if self._noted < _OFTEN and not always:
            return None
        portion, self._noted = 2 * self._noted, 0
        return portion

    def _noting(
        self,
        until: sa.ColumnElement[float],
        of: Sequence[sa.ColumnElement[bool]],
        settlement: sa.ColumnElement[str],
    ) -> Statement:
        noted = sa.select(jobs.c.id, settlement, self._compile.now, until).where(*of)
        insert = sa.insert(ended).from_select(["id", "settlement", "at", "until"], self._compile.dialect.holding(noted))
        return self._compile(insert)


def _using_up(compile_: Compiler, seconds: float) -> sa.Insert:
    """Remembers an id that was never stored."""
    until = compile_.now + sa.literal_column(repr(seconds), sa.Double)
    return sa.insert(ended).values(id=parameter("id", sa.String), settlement=sa.null(), at=compile_.now, until=until)


def _end() -> sa.ColumnElement[int]:
    oldest = sa.select(sa.func.min(ended.c.seq).label("seq")).subquery()
    return sa.select(oldest.c.seq + parameter("portion", sa.Integer)).scalar_subquery()


def _forget(compile_: Compiler, end: sa.ColumnElement[int]) -> sa.Delete:
    is_old = ended.c.at < compile_.now - parameter("keep", sa.Double)
    return sa.delete(ended).where(ended.c.seq < end, is_old)


NO_SETTLEMENT: Parameters = {"settlement": None}
