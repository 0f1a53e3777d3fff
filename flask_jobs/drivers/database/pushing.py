"""Storing jobs, each id once."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ...driver import PORTION
from ...envelope import After, Envelope
from ...pushes import Push, Pushed
from ...validation import queue_name
from .access import Access
from .dialects import Sqlite
from .keys import ROUNDS, Keys, key_of, overtaken, tie_parameters
from .remembering import Memory
from .schema import DELAYED, READY, ended, failed, jobs
from .statements import Compiler, OwnTransaction, Transaction, constant, instant_parameters, parameter
from .text import Parameters


class Pushing:
    """Inserts jobs whose ids are neither stored, nor failed, nor remembered."""

    def __init__(self, access: Access, memory: Memory) -> None:
        compile_ = access.compile
        self._access = access
        self.keys = Keys(compile_)
        self._memory = memory
        # Elsewhere the rows of a transaction of the app's are locked until it ends, which is for the app's own rows.
        self._locks_anyway = isinstance(compile_.dialect, Sqlite)
        self._insert = compile_(_insert(compile_))
        self._insert_tied = compile_(_insert_tied(compile_))
        self._known = compile_(_known(compile_))
        self._stored_by = compile_(
            sa.select(jobs.c.seq).where(
                jobs.c.id == parameter("id", sa.String), jobs.c.token == parameter("push", sa.String)
            )
        )
        self._head = compile_(select_head())

    def store_at_once(self, pushes: Sequence[Push]) -> list[Pushed] | None:
        """Store the jobs, or None if that takes more than one statement."""
        if len(pushes) > 1 or pushes[0].front or are_tied(pushes):
            return None
        self._memory.forget_if_due(self._access, 1)
        stored = self._access.change_alone(self._insert, push_row(pushes[0], "", {}), lasting=True)
        return [Pushed(pushes[0].envelope.id, stored=bool(stored))]

    def store(self, transaction: Transaction, pushes: Sequence[Push]) -> list[Pushed]:
        """Store what is new, in portions; says of each push whether it was stored."""
        # The first statement is a write: a read that turns into a write fails at once if others wrote in between.
        self._prune(transaction, pushes)
        if isinstance(transaction, OwnTransaction):
            self.queue_for_keys(transaction, pushes)
        pushed: list[Pushed] = []
        for start in range(0, len(pushes), PORTION):
            pushed += self.store_portion(transaction, pushes[start : start + PORTION])
        return pushed

    def queue_for_keys(self, transaction: Transaction, pushes: Sequence[Push]) -> None:
        """Before unique keys are taken one by one: wait for others that take some of the same in another order.

        Here nothing has to be done, for SQLite lets one transaction write at a time.
        """

    def _prune(self, transaction: Transaction, pushes: Sequence[Push]) -> None:
        if self._locks_anyway or isinstance(transaction, OwnTransaction):
            self._memory.prune(transaction, len(pushes), always=any(push.front for push in pushes))

    def store_portion(self, transaction: Transaction, pushes: Sequence[Push]) -> list[Pushed]:
        """Store what is new of up to `PORTION` jobs."""
        # Marks the rows of this push, so that an id of ours can be told from one that was there before.
        mark = secrets.token_hex(8)
        heads = self.heads(transaction, pushes)
        tied = are_tied(pushes)
        rows = push_rows(pushes, mark, heads, tied=tied)
        if tied and any(map(key_of, pushes)):
            return [self.store_alone(transaction, row) for row in rows]
        insert = self._insert_tied if tied else self._insert
        stored = transaction.run_many(insert, rows) if len(rows) > 1 else transaction.run(insert, rows[0])
        if stored == len(rows):
            return [Pushed(push.envelope.id) for push in pushes]
        return self._answers(transaction, pushes, mark)

    def store_alone(self, transaction: Transaction, row: Parameters) -> Pushed:
        """Store one job with ties; where its unique key is held, say by which job."""
        for _ in range(ROUNDS):
            if self.insert_tied(transaction, row):
                return Pushed(str(row["id"]))
            if (answer := self.left_out(transaction, row)) is not None:
                return answer
        raise overtaken(f"The push of {row['id']}")

    def left_out(self, transaction: Transaction, row: Parameters) -> Pushed | None:
        """The answer to a push that was not stored; None if nothing is in its way any more."""
        id_, digest = str(row["id"]), row["unique_key"]
        if digest is None or transaction.rows(self._known, {"id": id_}):
            return Pushed(id_, stored=False)
        holder = self.keys.holder_in_the_way(transaction, str(digest))
        if holder is None:
            return None
        return Pushed(id_, stored=False, holder=None if holder == id_ else holder)

    def insert_tied(self, transaction: Transaction, row: Parameters) -> bool:
        """Insert one row with ties, unless its id is used or its key held."""
        return self.keys.insert(transaction, self._insert_tied, row)

    def use_up(self, transaction: Transaction, ids: Sequence[str]) -> None:
        """Remember the ids of jobs that were not stored and have been counted for all that, so that it happens once."""
        if ids:
            transaction.run_many(self._memory.using_up, [{"id": id_} for id_ in ids])

    def refuse_too_large(self, envelope: Envelope, text: str) -> None:
        """Raise `StoreRefused` if the server does not take a statement with this text for the job."""

    def heads(self, transaction: Transaction, pushes: Sequence[Push]) -> dict[str, float]:
        """The place before all others of each queue that something is pushed to the front of.

        What is pushed to the front together shares one place and so keeps its order.
        """
        queues = {push.envelope.queue for push in pushes if push.front}
        return {queue: transaction.rows(self._head, {"queue": queue})[0][0] for queue in queues}

    def _answers(self, transaction: Transaction, pushes: Sequence[Push], mark: str) -> list[Pushed]:
        answers: dict[str, bool] = {}
        pushed: list[Pushed] = []
        for push in pushes:
            id_ = push.envelope.id
            repeated = id_ in answers
            if not repeated:
                answers[id_] = bool(transaction.rows(self._stored_by, {"id": id_, "push": mark}))
            pushed.append(Pushed(id_, stored=answers[id_] and not repeated))
        return pushed


def check_names(pushes: Sequence[Push]) -> None:
    """Raise `InvalidArgument` for a queue name that no store could serve, before anything is sent."""
    for push in pushes:
        queue_name(push.envelope.queue)


def select_head() -> sa.Select[Any]:
    """The place before all that is ready in a queue."""
    first = sa.func.coalesce(sa.func.min(jobs.c.at), sa.literal_column("0.0", sa.Double))
    return sa.select(first - constant(1)).where(
        jobs.c.state == constant(READY), jobs.c.queue == parameter("queue", sa.String)
    )


def push_row(push: Push, mark: str, heads: Mapping[str, float]) -> dict[str, object]:
    """The push as parameters; `mark` tells its rows from those that were there before."""
    envelope = push.envelope
    row: dict[str, object] = {
        "id": envelope.id,
        "name": envelope.name,
        "queue": envelope.queue,
        "body": envelope.body,
        "retried_from": envelope.retried_from,
        "push": mark,
        **instant_parameters("retry", push.retry_until),
    }
    if not _is_due_now(push):
        return {**row, "state": DELAYED, **instant_parameters("due", push.due)}
    place = heads[envelope.queue] if push.front else 0.0
    return {**row, "state": READY, "due_amount": place, "due_relative": 0}


def push_rows(pushes: Sequence[Push], mark: str, heads: Mapping[str, float], *, tied: bool) -> list[dict[str, object]]:
    """The pushes as parameters, all of one shape: if they are `tied`, with the columns for ties."""
    if not tied:
        return [push_row(push, mark, heads) for push in pushes]
    return [{**push_row(push, mark, heads), **tie_parameters(push.envelope.ties)} for push in pushes]


def are_tied(pushes: Sequence[Push]) -> bool:
    """Whether one of them has ties, so that the columns for them must be written."""
    return any(push.envelope.ties is not None for push in pushes)


def _is_due_now(push: Push) -> bool:
    return isinstance(push.due, After) and push.due.seconds <= 0


def row_values(compile_: Compiler) -> dict[str, sa.ColumnElement[Any]]:
    """The columns of a new row, of the parameters that `push_row` makes."""
    return {
        "id": parameter("id", sa.String),
        "name": parameter("name", sa.String),
        "queue": parameter("queue", sa.String),
        "state": parameter("state", sa.SmallInteger),
        "at": compile_.instant("due"),
        "token": parameter("push", sa.String),
        "pushed_at": compile_.now,
        "retry_until": compile_.instant("retry"),
        "retried_from": parameter("retried_from", sa.String),
        "body": parameter("body", sa.Text),
    }


def tied_row_values(compile_: Compiler) -> dict[str, sa.ColumnElement[Any]]:
    """The columns of a new row with ties, of the parameters that `push_rows` makes."""
    return {
        **row_values(compile_),
        "ties": parameter("ties", sa.Text),
        "unique_key": parameter("unique_key", sa.String),
        "key_until": compile_.instant("key"),
    }


def _insert(compile_: Compiler) -> sa.Insert:
    values = row_values(compile_)
    return compile_.dialect.insert_new(jobs, list(values), _new(compile_, values), unique=jobs.c.id)


def _insert_tied(compile_: Compiler) -> sa.Insert:
    values = tied_row_values(compile_)
    return compile_.dialect.insert_unless_taken(jobs, list(values), _new(compile_, values))


def _new(compile_: Compiler, values: Mapping[str, sa.ColumnElement[Any]]) -> sa.Select[Any]:
    is_remembered = sa.exists().where(ended.c.id == values["id"], ended.c.until > compile_.now)
    has_failed = sa.exists().where(failed.c.id == values["id"])
    return sa.select(*values.values()).where(~is_remembered, ~has_failed)


def _known(compile_: Compiler) -> sa.CompoundSelect[Any]:
    id_ = parameter("id", sa.String)
    return sa.union_all(
        sa.select(constant(1)).where(jobs.c.id == id_),
        sa.select(constant(1)).where(failed.c.id == id_),
        sa.select(constant(1)).where(ended.c.id == id_, ended.c.until > compile_.now),
    )
