"""Storing jobs on MySQL and MariaDB: many rows in one statement, which cannot say which ones it would leave out."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa

from ...envelope import Push, Pushed
from ...errors import StoreRefused
from . import mysql_errors
from .dialects import Mysql
from .mysql_steps import padded, places
from .pushing import Pushing, push_row, row_values
from .remembering import Memory
from .schema import ended, failed, jobs
from .statements import Compiler, Transaction, parameter, repeated
from .text import Parameters

# Bytes of jobs that one statement carries, well below the smallest max_allowed_packet in use.
_STATEMENT_BYTES = 1_000_000

# What a statement takes beside a body.
_BESIDE = 10_000


class MysqlPushing(Pushing):
    """Inserts first, and then takes out again whose ids are used up: nothing that others do slips in between."""

    def __init__(self, compile_: Compiler, memory: Memory, dialect: Mysql) -> None:
        super().__init__(compile_, memory)
        self._dialect = dialect
        self._row = compile_(sa.insert(jobs).values(**row_values(compile_)))
        self._used_up = cache(lambda amount: compile_(_used_up(compile_, amount)))
        self._take_out = compile_(
            sa.delete(jobs).where(jobs.c.id == parameter("id", sa.String), jobs.c.token == parameter("push", sa.String))
        )

    def store_portion(self, transaction: Transaction, pushes: Sequence[Push]) -> list[Pushed]:
        """Store what is new of up to `PORTION` jobs."""
        for push in pushes:
            self._refuse_too_large(push)
        mark = secrets.token_hex(8)
        heads = self.heads(transaction, pushes)
        stored: set[str] = set()
        for part in _parts([push_row(push, mark, heads) for push in pushes]):
            stored |= self._insert_part(transaction, part)
        stored -= self._without_used_up(transaction, [push.envelope.id for push in pushes], mark)
        return _answers(pushes, stored)

    def _insert_part(self, transaction: Transaction, rows: Sequence[Parameters]) -> set[str]:
        """Insert these rows, or as many of them as are new, and give their ids."""
        statement, parameters = repeated(self._row, rows)
        try:
            transaction.run(statement, parameters)
        except Exception as error:  # the Python driver's own class, which only its number tells apart
            if mysql_errors.number(error) != mysql_errors.DUPLICATE:
                raise
            if len(rows) == 1:
                return set()
            return set().union(*(self._insert_part(transaction, [row]) for row in rows))
        return {str(row["id"]) for row in rows}

    def _without_used_up(self, transaction: Transaction, ids: Sequence[str], mark: str) -> set[str]:
        """Take out again what was stored under an id that has failed or is remembered."""
        rows = padded("id", ids)
        found = transaction.rows(self._used_up(len(rows)), rows)
        used_up = {row[0] for row in found}
        if used_up:
            transaction.run_many(self._take_out, [{"id": id_, "push": mark} for id_ in used_up])
        return used_up

    def _refuse_too_large(self, push: Push) -> None:
        limit = self._dialect.max_packet
        if limit is None or 2 * len(push.envelope.body) + _BESIDE <= limit:
            return
        body = push.envelope.body
        size = len(body) + sum(body.count(escaped) for escaped in "\"'\\") + _BESIDE
        if size > limit:
            raise StoreRefused(
                f"The job {push.envelope.name} ({push.envelope.id}) takes {size} bytes to send and the server's "
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


def _answers(pushes: Sequence[Push], stored: set[str]) -> list[Pushed]:
    seen: set[str] = set()
    answers: list[Pushed] = []
    for push in pushes:
        id_ = push.envelope.id
        answers.append(Pushed(id_, stored=id_ in stored and id_ not in seen))
        seen.add(id_)
    return answers


def _used_up(compile_: Compiler, amount: int) -> sa.CompoundSelect[Any]:
    ids = places("id", amount, sa.String)
    remembered = sa.select(ended.c.id).where(ended.c.id.in_(ids), ended.c.until > compile_.now)
    return sa.union_all(remembered, sa.select(failed.c.id).where(failed.c.id.in_(ids)))
