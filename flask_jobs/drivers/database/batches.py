"""Batches in tables: every member is counted in the transaction that ends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import sqlalchemy as sa

from ...envelope import Followed
from ...pushes import BatchPush, Push, Pushed, Role
from ...stored import StoredBatch
from ..transitions import End, callbacks_due, counted
from .ended import Ended
from .keys import Keys
from .planned import Planned
from .pushing import Pushing
from .schema import batches
from .statements import Compiler, Transaction, constant, limited, parameter

_BATCH = batches.c.id == parameter("batch", sa.String)

_COUNTS = ("total", "pending", "done", "failed", "skipped", "callbacks")
_INSTANTS = ("cancelled_at", "finished_at")


class Batches:
    """Pushes batches, counts their members and pushes their callbacks.

    A batch is reckoned in Python, by the rules of all drivers, with its row locked from the look to the update.
    """

    def __init__(self, compile_: Compiler, pushing: Pushing, planned: Planned) -> None:
        self._pushing = pushing
        self._planned = planned
        self._keys: Keys = pushing.keys
        self._statements = _Statements(compile_)

    def push(self, transaction: Transaction, batch: BatchPush) -> list[Pushed] | None:
        """Store the batch and push its members; None if its id is stored already, for then nothing is done."""
        row = {"batch": batch.id, "name": batch.name, "allows": batch.allow_failures}
        if not self._keys.insert(transaction, self._statements.insert, row):
            return None
        self._planned.keep(transaction, batch.id, [(role, 0, push) for role, push in batch.callbacks.items()])
        answers = self._pushing.store(transaction, batch.members)
        self._count_in(transaction, batch.id, answers)
        return answers

    def add(self, transaction: Transaction, batch_id: str, members: Sequence[Push]) -> list[Pushed] | None:
        """Push more members. None if the batch has finished: then the transaction must be given up."""
        # The members come first, so that those of the batch that end meanwhile need not wait until all are stored.
        answers = self._pushing.store(transaction, members)
        return answers if self._count_in(transaction, batch_id, answers) else None

    def tell(self, transaction: Transaction, batch_id: str, all_ended: Sequence[Ended]) -> list[Followed]:
        """Let the batch know how members and callbacks have ended; gives what was pushed or dropped for it."""
        found = self._held(transaction, batch_id)
        if found is None:
            return []
        batch, now = found
        after = batch
        for ended in all_ended:
            if not ended.ties.is_callback:
                after = counted(after, ended.end, again=ended.again, now=now)
            elif ended.end is not End.FAILED:
                # A callback that has failed may be retried, and must still find its batch.
                after = replace(after, callbacks=after.callbacks - 1)
        return self._update(transaction, batch, after, now)

    def find(self, transaction: Transaction, batch_id: str) -> StoredBatch | None:
        """The batch, or None."""
        rows = transaction.rows(self._statements.find, {"batch": batch_id})
        return _stored(rows[0]) if rows else None

    def page(self, transaction: Transaction, before: str | None, limit: int) -> list[StoredBatch]:
        """A page of batches by id, newest first."""
        if before is None:
            rows = transaction.rows(self._statements.newest, {"limit": limit})
        else:
            rows = transaction.rows(self._statements.before, {"batch": before, "limit": limit})
        return [_stored(row) for row in rows]

    def cancel(self, transaction: Transaction, batch_id: str) -> bool:
        """Note that it is cancelled; false if it is unknown, cancelled or finished."""
        return transaction.run(self._statements.cancel, {"batch": batch_id}) > 0

    def prune(self, transaction: Transaction, age: float, limit: int) -> int:
        """Delete batches that finished so many seconds ago and have neither callback nor failed member left."""
        ids = [str(id_) for (id_,) in transaction.rows(self._statements.over, {"age": age, "limit": limit})]
        if ids:
            transaction.run_many(self._statements.delete, [{"batch": id_} for id_ in ids])
            self._planned.drop(transaction, ids)
        return len(ids)

    def _count_in(self, transaction: Transaction, batch_id: str, answers: Sequence[Pushed]) -> bool:
        """Add the members that were stored, and those that another job's unique key kept out; false if it is over."""
        found = self._held(transaction, batch_id)
        if found is None or found[0].finished_at is not None:
            return False
        batch, now = found
        stored = sum(answer.stored for answer in answers)
        held = [answer.id for answer in answers if answer.holder is not None]
        self._pushing.use_up(transaction, held)
        after = replace(
            batch,
            total=batch.total + stored + len(held),
            pending=batch.pending + stored,
            skipped=batch.skipped + len(held),
        )
        self._update(transaction, batch, after, now)
        return True

    def _held(self, transaction: Transaction, batch_id: str) -> tuple[StoredBatch, float] | None:
        rows = transaction.rows(self._statements.hold, {"batch": batch_id})
        return (_stored(rows[0][1:]), float(rows[0][0])) if rows else None

    def _update(self, transaction: Transaction, batch: StoredBatch, after: StoredBatch, now: float) -> list[Followed]:
        due = callbacks_due(after)
        if Role.FINALLY in due and after.finished_at is None:
            after = replace(after, finished_at=now)
        found = [self._planned.follow(transaction, batch.id, role) for role in due]
        followed = [one for one in found if one is not None]
        living = sum(one.holder is None for one in followed)
        after = replace(after, callbacks=after.callbacks + living)
        if after != batch:
            row = {f"{name}_now": getattr(after, name) for name in (*_COUNTS, *_INSTANTS)}
            transaction.run(self._statements.update, {"batch": batch.id, **row})
        return followed


class _Row(NamedTuple):
    """One row of `flask_jobs_batches`."""

    id: str
    name: str
    total: int
    pending: int
    done: int
    failed: int
    skipped: int
    allow_failures: bool
    created_at: float
    cancelled_at: float | None
    finished_at: float | None
    callbacks: int


def _stored(row: Sequence[Any]) -> StoredBatch:
    found = _Row._make(row)
    return StoredBatch(**{**found._asdict(), "allow_failures": bool(found.allow_failures)})


class _Statements:
    def __init__(self, compile_: Compiler) -> None:
        columns = [batches.c[name] for name in _Row._fields]
        row = sa.select(*columns)
        page = limited(row.order_by(batches.c.id.desc()))
        self.insert = compile_(_insert(compile_))
        self.find = compile_(row.where(_BATCH))
        self.hold = compile_(compile_.dialect.holding(sa.select(compile_.now, *columns).where(_BATCH)))
        self.update = compile_(_update())
        self.newest = compile_(page)
        self.before = compile_(page.where(batches.c.id < parameter("batch", sa.String)))
        is_open = (batches.c.cancelled_at.is_(None), batches.c.finished_at.is_(None))
        self.cancel = compile_(sa.update(batches).where(_BATCH, *is_open).values(cancelled_at=compile_.now))
        self.over = compile_(compile_.dialect.taking(limited(_over(compile_))))
        self.delete = compile_(sa.delete(batches).where(_BATCH))


def _insert(compile_: Compiler) -> sa.Insert:
    values: dict[str, sa.ColumnElement[Any]] = {
        "id": parameter("batch", sa.String),
        "name": parameter("name", sa.Text),
        "allow_failures": parameter("allows", sa.Boolean),
        "created_at": compile_.now,
        **{count: constant(0) for count in _COUNTS},
    }
    new = sa.select(*values.values()).where(sa.true())
    return compile_.dialect.insert_unless_taken(batches, list(values), new)


def _update() -> sa.Update:
    counts = {name: parameter(f"{name}_now", sa.Integer) for name in _COUNTS}
    instants = {name: parameter(f"{name}_now", sa.Double) for name in _INSTANTS}
    return sa.update(batches).where(_BATCH).values(**counts, **instants)


def _over(compile_: Compiler) -> sa.Select[Any]:
    is_old = batches.c.finished_at <= compile_.now - parameter("age", sa.Double)
    # A failed member that is retried with success or forgotten is not counted as failed any more.
    is_left_alone = (batches.c.callbacks == constant(0), batches.c.failed == constant(0))
    over = sa.select(batches.c.id).where(is_old, *is_left_alone)
    return over.order_by(batches.c.finished_at)
