"""Storing jobs on PostgreSQL: a portion in one statement, which also tells who waits for them."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

from ...driver import PORTION
from ...pushes import Push, Pushed
from . import postgresql_steps as steps
from .access import Access
from .dialects.postgresql import raw
from .keys import key_of, wanted_digests
from .pushing import Pushing, are_tied, push_rows
from .remembering import Memory
from .statements import OwnTransaction, Transaction
from .text import Parameters, Statement

_STRIPES = 64


class PostgresqlPushing(Pushing):
    """Stores a portion in one round trip. A unique key that is held takes more, to ask who holds it."""

    def __init__(self, access: Access, memory: Memory) -> None:
        super().__init__(access, memory)
        rings, local_clock = access.bell.rings, access.compile.local_clock
        self._queue_for_keys = raw(steps.QUEUE_FOR_KEYS, local_clock=local_clock)
        self._free_keys = raw(steps.FREE_KEYS, local_clock=local_clock)
        self._store, self._store_one = (
            {tied: raw(step(rings=rings, tied=tied), local_clock=local_clock) for tied in (False, True)}
            for step in (steps.store, steps.store_one)
        )
        self._store_within = {
            tied: raw(steps.store(rings=rings, tied=tied, within=True), local_clock=local_clock)
            for tied in (False, True)
        }

    def store_at_once(self, pushes: Sequence[Push]) -> list[Pushed] | None:
        """Store the jobs, or None if that takes more than the one statement."""
        if len(pushes) > PORTION or any(push.front for push in pushes):
            return None
        self._memory.forget_if_due(self._access, len(pushes))
        tied = are_tied(pushes)
        rows = push_rows(pushes, "", {}, tied=tied)
        keys = {**_keys(pushes), **_stripes(pushes)} if tied else {}
        before = self._before(keys)
        if len(pushes) == 1:
            stored = self._access.run_alone(self._store_one[tied], {**rows[0], **keys}, lasting=True, before=before)
            answers = [Pushed(pushes[0].envelope.id, stored=bool(stored))]
        else:
            given = {**_given(rows), **keys}
            answers = _answers(pushes, self._access.run_alone(self._store[tied], given, lasting=True, before=before))
        if not keys or not _left_out_by_keys(pushes, answers):
            return answers
        with self._access.writing() as transaction:
            return self._explained(transaction, pushes, answers, rows)

    def store_portion(self, transaction: Transaction, pushes: Sequence[Push]) -> list[Pushed]:
        """Store what is new of up to `PORTION` jobs."""
        tied = are_tied(pushes)
        rows = push_rows(pushes, "", self.heads(transaction, pushes), tied=tied)
        keys = _keys(pushes) if tied else {}
        if keys:
            transaction.run(self._free_keys, keys)
        found = transaction.rows(self._storing(transaction, tied=tied), _given(rows))
        answers = _answers(pushes, found)
        return self._explained(transaction, pushes, answers, rows) if keys else answers

    def queue_for_keys(self, transaction: Transaction, pushes: Sequence[Push]) -> None:
        """Wait for transactions that are about to take some of the same unique keys, in one order for all."""
        if stripes := _stripes(pushes):
            transaction.rows(self._queue_for_keys, stripes)

    def insert_tied(self, transaction: Transaction, row: Parameters) -> bool:
        """Insert one row with ties, unless its id is used or its key held."""
        return (row["id"],) not in transaction.rows(self._storing(transaction, tied=True), _given([row]))

    def _storing(self, transaction: Transaction, *, tied: bool) -> Statement:
        return (self._store if isinstance(transaction, OwnTransaction) else self._store_within)[tied]

    def _before(self, keys: Parameters) -> list[Statement]:
        """What makes way for jobs that want these keys."""
        queued = [self._queue_for_keys] if "stripes" in keys else []
        return [*queued, self._free_keys] if keys else []

    def _explained(
        self,
        transaction: Transaction,
        pushes: Sequence[Push],
        answers: Sequence[Pushed],
        rows: Sequence[Parameters],
    ) -> list[Pushed]:
        """The answers, with the holders of unique keys; what nothing is in the way of any more is stored after all."""
        explained = {
            place: self.left_out(transaction, rows[place]) or self.store_alone(transaction, rows[place])
            for place in _left_out_by_keys(pushes, answers)
        }
        return [explained.get(place, answer) for place, answer in enumerate(answers)]


def _given(rows: Sequence[Parameters]) -> dict[str, object]:
    return {"rows": json.dumps([{"place": place, **row} for place, row in enumerate(rows)])}


def _keys(pushes: Sequence[Push]) -> dict[str, object]:
    """The unique keys that the jobs want, as the parameter of the statement that frees what is over."""
    digests = wanted_digests(pushes)
    return {"keys": json.dumps(sorted(digests))} if digests else {}


def _stripes(pushes: Sequence[Push]) -> dict[str, object]:
    """Which stripes the unique keys are in, in order; nothing for one key, which nobody waits for in a circle."""
    digests = wanted_digests(pushes)
    if len(digests) < 2:
        return {}
    return {"stripes": json.dumps(sorted({zlib.crc32(digest.encode()) % _STRIPES for digest in digests}))}


def _left_out_by_keys(pushes: Sequence[Push], answers: Sequence[Pushed]) -> list[int]:
    """The places of those that were not stored, for which a unique key may be the reason."""
    return [
        place
        for place, (push, answer) in enumerate(zip(pushes, answers, strict=True))
        if not answer.stored and key_of(push) is not None
    ]


def _answers(pushes: Sequence[Push], found: Sequence[tuple[Any, ...]]) -> list[Pushed]:
    # What tells the waiting gives an empty line.
    left_out = {row[0] for row in found}
    answers: list[Pushed] = []
    for push in pushes:
        id_ = push.envelope.id
        answers.append(Pushed(id_, stored=id_ not in left_out))
        left_out.add(id_)
    return answers
