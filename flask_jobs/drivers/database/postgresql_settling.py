"""Settling on PostgreSQL: what is done and has ties ends in one statement, which says what it has ended."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ...envelope import Ack
from . import postgresql_steps as steps
from .bell import Bell
from .dialects.postgresql import raw
from .following import Following
from .remembering import Memory
from .settling import Settling, as_row
from .statements import Compiler, OwnTransaction


class PostgresqlSettling(Settling):
    """Ends all jobs of one settling that are done and have ties in one statement."""

    def __init__(self, compile_: Compiler, memory: Memory, bell: Bell, following: Following) -> None:
        super().__init__(compile_, memory, bell, following)
        self._remember_ids = memory.remember_ids
        self._end_each = raw(steps.ACK_EACH, local_clock=compile_.local_clock)

    def end_tied(self, transaction: OwnTransaction, acks: Sequence[Ack]) -> Sequence[Ack]:
        """End the live deliveries of jobs with ties, and give those that were ended by this."""
        rows = [as_row("ack", ack.reservation) for ack in acks]
        given = {"acks": json.dumps(rows), "remember_ids": self._remember_ids}
        ended = {settlement for (settlement,) in transaction.rows(self._end_each, given)}
        return [ack for ack, row in zip(acks, rows, strict=True) if row["settlement"] in ended]
