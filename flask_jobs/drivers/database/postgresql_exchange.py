"""Settling what is done and popping what is next, on PostgreSQL in one round trip."""

from __future__ import annotations

import json
from collections.abc import Sequence
from operator import itemgetter
from typing import cast

from ...envelope import Ack, Popped, Room, Settled, Settlement
from . import postgresql_steps as steps
from .access import Access
from .dialects.postgresql import raw
from .popping import Look, Popping
from .remembering import Memory
from .rows import JobRow
from .settling import Settling, as_row


class OneTrip:
    """Serves exchanges of what is done for what is next, as long as nothing has expired, and looks for what is next."""

    def __init__(self, access: Access, memory: Memory, popping: Popping, settling: Settling) -> None:
        local_clock = access.compile.local_clock
        self._access = access
        self._memory = memory
        self._popping = popping
        self._settling = settling
        self._ack = raw(steps.ACK, local_clock=local_clock)
        self._exchange = raw(steps.EXCHANGE, local_clock=local_clock)

    def serves(self, settlements: Sequence[Settlement]) -> bool:
        """Whether nothing but acks of jobs without ties is settled."""
        return all(isinstance(one, Ack) and one.reservation.envelope.ties is None for one in settlements)

    def look(self, queues: Sequence[str]) -> Look:
        """Look at the queues without touching anything. To plan this takes far longer than to run it as planned."""
        return self._popping.look(self._access.read_alone, queues)

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Settle what is done, and say what came too late."""
        acks = cast("Sequence[Ack]", settlements)
        noted = self._access.run_alone(self._ack, self._acked(acks), lasting=False)[0][0]
        return self._settled(acks, noted)

    def exchange(
        self, settlements: Sequence[Settlement], queues: Sequence[str], token: str, room: Room
    ) -> tuple[Settled, Popped | None]:
        """What came too late, and what was popped: None if leases have expired and must be taken in first."""
        acks = cast("Sequence[Ack]", settlements)
        asked = [{"queue": queue, "due_first": self._popping.due_first.get(queue, False)} for queue in queues]
        parameters = {
            **self._acked(acks),
            "queues": json.dumps(asked),
            "token": token,
            "limit": room.limit,
            "cut": room.limit if room.limit == 1 else 2 * room.limit,
            "box": room.box,
            "means": json.dumps(dict(room.means)) if room.limit > 1 else "{}",
            "retry_after": self._popping.retry_after,
        }
        rows = self._access.run_alone(self._exchange, parameters, lasting=False)
        now, has_expired, noted, nth = rows[0][:4]
        settled = self._settled(acks, noted)
        if has_expired:
            return settled, None
        taken = [JobRow._make(row[4:]) for row in rows] if nth is not None else []
        for queue in {row.queue for row in taken}:
            self._popping.due_first[queue] = not self._popping.due_first.get(queue, False)
        return settled, Popped(tuple([row.reservation(token, now) for row in taken]), now)

    def _acked(self, acks: Sequence[Ack]) -> dict[str, object]:
        # In the order in which a renewal holds them.
        rows = sorted([as_row("ack", ack.reservation) for ack in acks], key=itemgetter("row_seq"))
        return {"acks": json.dumps(rows), "remember_ids": self._memory.remember_ids}

    def _settled(self, acks: Sequence[Ack], noted: int) -> Settled:
        self._memory.forget_if_due(self._access, len(acks))
        if noted == len(acks):
            return Settled()
        with self._access.reading() as transaction:
            return Settled(tuple(self._settling.unknown(transaction, acks)))
