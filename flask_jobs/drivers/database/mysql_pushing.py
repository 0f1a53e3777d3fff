"""Storing jobs on MySQL and MariaDB: many rows in one statement, which cannot say which ones it would leave out."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from ...envelope import Envelope
from ...errors import StoreRefused
from ...pushes import Push, Pushed
from .access import Access
from .dialects import Mysql
from .keys import wanted_digests
from .pushing import Pushing, are_tied, push_row, push_rows, row_values, tied_row_values
from .remembering import Memory
from .schema import ended, failed, jobs, schema
from .statements import Compiler, Transaction, padded, parameter, places, repeated
from .text import Parameters

# Bytes of jobs that one statement carries, well below the smallest max_allowed_packet in use.
_STATEMENT_BYTES = 1_000_000

# What a statement takes beside a body.
_BESIDE = 10_000


class MysqlPushing(Pushing):
    """Inserts first, and then takes out again whose ids are used up: nothing that others do slips in between."""

    def __init__(self, access: Access, memory: Memory, dialect: Mysql) -> None:
        super().__init__(access, memory)
        compile_ = access.compile
        self._dialect = dialect
        self._row = {
            tied: compile_(sa.insert(jobs).values(**values(compile_)))
            for tied, values in ((False, row_values), (True, tied_row_values))
        }
        self._the_one_row = compile_(dialect.holding(sa.select(schema.c.version)))
        self._used_up = cache(lambda amount: compile_(_used_up(compile_, amount)))
        self._take_out = compile_(
            sa.delete(jobs).where(jobs.c.id == parameter("id", sa.String), jobs.c.token == parameter("push", sa.String))
        )
        self._take_out_used_up = compile_(_take_out_used_up(compile_))

    def store_at_once(self, pushes: Sequence[Push]) -> list[Pushed] | None:
        """Store one job without ties, and take it out again before the commit if its id is used up."""
        envelope = pushes[0].envelope
        if len(pushes) > 1 or pushes[0].front or envelope.ties is not None:
            return None
        self.refuse_too_large(envelope, envelope.body)
        self._memory.forget_if_due(self._access, 1)
        row = push_row(pushes[0], secrets.token_hex(8), {})
        return [Pushed(envelope.id, stored=self._stores_alone(row))]

    def _stores_alone(self, row: Parameters) -> bool:
        try:
            before = [self._row[False]]
            return not self._access.change_alone(self._take_out_used_up, row, lasting=True, before=before)
        except Exception as error:  # the Python driver's own class, which only the dialect knows
            if not self._dialect.is_duplicate(error):
                raise
            return False

    def store_portion(self, transaction: Transaction, pushes: Sequence[Push]) -> list[Pushed]:
        """Store what is new of up to `PORTION` jobs."""
        for push in pushes:
            self.refuse_too_large(push.envelope, push.envelope.body)
        mark = secrets.token_hex(8)
        heads = self.heads(transaction, pushes)
        answers: list[Pushed] = []
        for part in _parts(push_rows(pushes, mark, heads, tied=are_tied(pushes))):
            answers += self._insert_part(transaction, part)
        used_up = self._without_used_up(transaction, [push.envelope.id for push in pushes], mark)
        return [Pushed(one.id, stored=False) if one.id in used_up else one for one in answers]

    def queue_for_keys(self, transaction: Transaction, pushes: Sequence[Push]) -> None:
        """Wait until no other transaction is about to take several unique keys."""
        # InnoDB waits at the key itself, so that two transactions with keys in different orders would wait for each
        # other. It has no lock by a name that a commit ends, but rows; this one is there and never changes.
        if len(wanted_digests(pushes)) > 1:
            transaction.rows(self._the_one_row, {})

    def insert_tied(self, transaction: Transaction, row: Parameters) -> bool:
        """Insert one row with ties, unless its id is stored or its key held."""
        return self._inserts(transaction, [row])

    def _insert_part(self, transaction: Transaction, rows: Sequence[Parameters]) -> list[Pushed]:
        """Insert these rows, or as many of them as are new."""
        if self._inserts(transaction, rows):
            return [Pushed(str(row["id"])) for row in rows]
        # One by one, so that each is inserted in its turn or its own reason found.
        return [self._store_alone_or_not(transaction, row) for row in rows]

    def _store_alone_or_not(self, transaction: Transaction, row: Parameters) -> Pushed:
        if "ties" in row:
            return self.store_alone(transaction, row)
        return Pushed(str(row["id"]), stored=self._inserts(transaction, [row]))

    def _inserts(self, transaction: Transaction, rows: Sequence[Parameters]) -> bool:
        """Insert all of these rows, or none if one of them is a duplicate."""
        statement, parameters = repeated(self._row["ties" in rows[0]], rows)
        return self.keys.insert(transaction, statement, parameters)

    def _without_used_up(self, transaction: Transaction, ids: Sequence[str], mark: str) -> set[str]:
        """Take out again what was stored under an id that has failed or is remembered."""
        rows = padded("id", ids)
        found = transaction.rows(self._used_up(len(rows)), rows)
        used_up = {row[0] for row in found}
        if used_up:
            transaction.run_many(self._take_out, [{"id": id_, "push": mark} for id_ in used_up])
        return used_up

    def refuse_too_large(self, envelope: Envelope, text: str) -> None:
        """Raise `StoreRefused` if the server's largest packet is too small for this text of the job."""
        limit = self._dialect.max_packet
        if limit is None or 2 * len(text) + _BESIDE <= limit:
            return
        size = len(text) + sum(text.count(escaped) for escaped in "\"'\\") + _BESIDE
        if size > limit:
            raise StoreRefused(
                f"The job {envelope.name} ({envelope.id}) takes {size} bytes to send and the server's "
                f"max_allowed_packet is {limit}; nothing was written. Make the setting larger, or the job smaller."
            )


def _parts(rows: Sequence[Parameters]) -> Iterator[list[Parameters]]:
    """The rows in their order, as many together as one statement carries."""
    part: list[Parameters] = []
    size = 0
    for row in rows:
        part.append(row)
        size += len(str(row["body"]))
        if size >= _STATEMENT_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _take_out_used_up(compile_: Compiler) -> sa.Delete:
    id_ = parameter("id", sa.String)
    is_remembered = sa.exists().where(ended.c.id == id_, ended.c.until > compile_.now)
    has_failed = sa.exists().where(failed.c.id == id_)
    is_ours = (jobs.c.id == id_, jobs.c.token == parameter("push", sa.String))
    return sa.delete(jobs).where(*is_ours, sa.or_(is_remembered, has_failed))


def _used_up(compile_: Compiler, amount: int) -> sa.CompoundSelect[Any]:
    ids = places("id", amount, sa.String)
    remembered = sa.select(ended.c.id).where(ended.c.id.in_(ids), ended.c.until > compile_.now)
    return sa.union_all(remembered, sa.select(failed.c.id).where(failed.c.id.in_(ids)))
