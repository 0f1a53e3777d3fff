"""What is remembered of jobs that have ended: ids that must not be stored again, and how deliveries were settled."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from .schema import ended, jobs
from .statements import Compiler, Parameters, Statement, Transaction, parameter

_OFTEN = 100


class Memory:
    """Notes the ends of jobs and deliveries, and forgets them in small portions as others are noted.

    An id is remembered for `remember_ids` seconds from its push; how a delivery was settled for at least
    `retry_after` more, as long as a worker may repeat a settlement whose answer it did not get.
    """

    def __init__(self, compile_: Compiler, *, remember_ids: float, retry_after: float) -> None:
        self._remember_ids = remember_ids
        self._keep = max(remember_ids, retry_after)
        self._compile = compile_
        self._forget = compile_(_forget(compile_))
        self._find = compile_(
            sa.select(ended.c.settlement).where(
                ended.c.id == parameter("id", sa.String), ended.c.settlement == parameter("settlement", sa.String)
            )
        )
        # Full at first, so that short-lived processes do their share.
        self._noted = _OFTEN

    def noting_end(self, *of: sa.ColumnElement[bool]) -> Statement:
        """A statement that notes the end of each job of which these conditions hold, with its `settlement`."""
        until = jobs.c.pushed_at + sa.literal_column(repr(self._remember_ids), sa.Double)
        return self._noting(until, of)

    def noting_release(self, *of: sa.ColumnElement[bool]) -> Statement:
        """A statement that notes the end of a delivery alone: the id itself is still in use."""
        return self._noting(sa.literal_column("0.0", sa.Double), of)

    def knows(self, transaction: Transaction, job_id: str, settlement: str) -> bool:
        """Whether this very settlement has been applied."""
        return bool(transaction.rows(self._find, {"id": job_id, "settlement": settlement}))

    def prune(self, transaction: Transaction, noted: int, *, always: bool = False) -> None:
        """Forget what is too old, a little more than is being noted, every hundred notes or so."""
        self._noted += noted
        if self._noted < _OFTEN and not always:
            return
        portion, self._noted = 2 * self._noted, 0
        transaction.run(self._forget, {"keep": self._keep, "portion": portion})

    def _noting(self, until: sa.ColumnElement[float], of: Sequence[sa.ColumnElement[bool]]) -> Statement:
        noted = sa.select(jobs.c.id, parameter("settlement", sa.String), self._compile.now, until).where(*of)
        insert = sa.insert(ended).from_select(["id", "settlement", "at", "until"], self._compile.dialect.holding(noted))
        return self._compile(insert)


def _forget(compile_: Compiler) -> sa.Delete:
    # Counted from the oldest, so that it never looks at more rows than it may delete. Written as a table of its
    # own, because MySQL reads from no table that it deletes from.
    oldest = sa.select(sa.func.min(ended.c.seq).label("seq")).subquery()
    end = sa.select(oldest.c.seq + parameter("portion", sa.Integer)).scalar_subquery()
    return sa.delete(ended).where(ended.c.seq < end, ended.c.at < compile_.now - parameter("keep", sa.Double))


NO_SETTLEMENT: Parameters = {"settlement": None}
