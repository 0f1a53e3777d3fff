"""Storing jobs on PostgreSQL: a portion in one statement, which also tells who waits for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...driver import PORTION
from ...envelope import Push, Pushed
from . import postgresql_steps as steps
from .access import Access
from .dialects.postgresql import raw
from .pushing import Pushing, push_row
from .remembering import Memory
from .statements import OwnTransaction, Transaction


class PostgresqlPushing(Pushing):
    """Stores a portion in one round trip."""

    def __init__(self, access: Access, memory: Memory) -> None:
        super().__init__(access.compile, memory)
        self._access = access
        rings, local_clock = access.bell.rings, access.compile.local_clock
        self._store = raw(steps.store(rings=rings), local_clock=local_clock)
        self._store_within = raw(steps.store(rings=rings, within=True), local_clock=local_clock)
        self._store_one = raw(steps.store_one(rings=rings), local_clock=local_clock)

    def store_at_once(self, pushes: Sequence[Push]) -> list[Pushed] | None:
        """Store the jobs, or None if that takes more than the one statement."""
        if len(pushes) > PORTION or any(push.front for push in pushes):
            return None
        forget_if_due(self._access, self._memory, len(pushes))
        if len(pushes) == 1:
            stored = self._access.run_alone(self._store_one, push_row(pushes[0], "", {}), lasting=True)
            return [Pushed(pushes[0].envelope.id, stored=bool(stored))]
        return _answers(pushes, self._access.run_alone(self._store, _rows(pushes, {}), lasting=True))

    def store_portion(self, transaction: Transaction, pushes: Sequence[Push]) -> list[Pushed]:
        """Store what is new of up to `PORTION` jobs."""
        heads = self.heads(transaction, pushes)
        store = self._store if isinstance(transaction, OwnTransaction) else self._store_within
        return _answers(pushes, transaction.rows(store, _rows(pushes, heads)))


def forget_if_due(access: Access, memory: Memory, noted: int) -> None:
    """Forget old notes, if so many more make it worth a trip of its own."""
    if (forgetting := memory.forgetting(noted)) is not None:
        statement, parameters = forgetting
        access.change_alone(statement, parameters)


def _rows(pushes: Sequence[Push], heads: Mapping[str, float]) -> dict[str, object]:
    rows = [{"place": place, **push_row(push, "", heads)} for place, push in enumerate(pushes)]
    return {"rows": json.dumps(rows)}


def _answers(pushes: Sequence[Push], found: Sequence[tuple[Any, ...]]) -> list[Pushed]:
    # What tells the waiting gives an empty line.
    left_out = {row[0] for row in found}
    answers: list[Pushed] = []
    for push in pushes:
        id_ = push.envelope.id
        answers.append(Pushed(id_, stored=id_ not in left_out))
        left_out.add(id_)
    return answers
