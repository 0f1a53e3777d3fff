"""Locks in a table: a row for each place of a key that is held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from ... import clock as clocks
from ...errors import StoreRefused
from ...store import Held, Holder, Taken
from .access import Access
from .retrying import repeated_if_overtaken
from .schema import RESERVED, jobs, locks
from .statements import Compiler, OwnTransaction, constant, limited, parameter

_KEY = parameter("lock_key", sa.String)
_PLACE = parameter("lock_place", sa.Integer)
_HOLDER = parameter("lock_holder", sa.String)
_OF_KEY = locks.c.key == _KEY
_ROW = (_OF_KEY, locks.c.place == _PLACE)

# How often an acquire looks for what was left behind, and how much of it it removes then.
_OFTEN, _PORTION = 50, 20

# Places that others take between two looks; more would mean that they come faster than one can look.
_TURNS = 100


class Locks:
    """Takes, extends and releases places of keys."""

    def __init__(self, access: Access, *, retry_after: float) -> None:
        compile_ = access.compile
        holding, taking = compile_.dialect.holding, compile_.dialect.taking
        self._access = access
        self._retry_after = retry_after
        rows = sa.select(locks.c.place).where(_OF_KEY, locks.c.place < parameter("places", sa.Integer))
        self._rows = compile_(holding(rows.order_by(locks.c.place)))
        self._live = compile_(_live(compile_))
        self._take_over = compile_(sa.update(locks).where(*_ROW).values(**_values(compile_)))
        self._add = compile_(_add(compile_))
        is_own = (_OF_KEY, locks.c.holder == _HOLDER, _is_live(compile_))
        self._is_held = compile_(sa.select(locks.c.place).where(*is_own))
        self._extend = compile_(_extend(compile_))
        self._release = compile_(sa.delete(locks).where(_OF_KEY, locks.c.holder == _HOLDER))
        self._old = compile_(taking(limited(_old(compile_))))
        self._is_live = compile_(sa.select(locks.c.place).where(*_ROW, _is_live(compile_)))
        self._remove = compile_(sa.delete(locks).where(*_ROW))
        self._look_later = compile_(sa.update(locks).where(*_ROW).values(until=_in_seconds(compile_)))
        self._acquired = _OFTEN

    @repeated_if_overtaken
    def acquire(self, key: str, holder: Holder, places: int, seconds: float) -> Held | Taken:
        """Take one of the key's places, or say who holds the one that ends first."""
        row = {"lock_key": key, "places": places, **self._row(holder, seconds)}
        with self._access.writing(lasting=False) as transaction:
            for _ in range(_TURNS):
                answer = self._try(transaction, holder.id, row)
                if answer is not None:
                    return answer
        raise StoreRefused(f"The lock {key!r} changed its holders faster than one could look. Nothing was written.")

    @repeated_if_overtaken
    def extend(self, key: str, holder: Holder, seconds: float) -> bool:
        """Put off the end of a place that is held."""
        row = {"lock_key": key, "lock_holder": holder.id, "seconds": seconds}
        with self._access.writing(lasting=False) as transaction:
            if holder.delivery is not None:
                # Renewed with its lease; there is nothing else to put off.
                return bool(transaction.rows(self._is_held, row))
            return transaction.run(self._extend, row) > 0

    @repeated_if_overtaken
    def release(self, key: str, holder: Holder) -> bool:
        """Remove the row of this holder."""
        with self._access.writing(lasting=False) as transaction:
            return transaction.run(self._release, {"lock_key": key, "lock_holder": holder.id}) > 0

    @repeated_if_overtaken
    def sweep(self) -> None:
        """Remove, now and then, some of what was left behind."""
        self._acquired += 1
        if self._acquired < _OFTEN:
            return
        self._acquired = 0
        with self._access.writing(lasting=False) as transaction:
            for key, place in transaction.rows(self._old, {"limit": _PORTION}):
                row = {"lock_key": key, "lock_place": place}
                if transaction.rows(self._is_live, row):
                    transaction.run(self._look_later, {**row, "seconds": self._retry_after})
                else:
                    transaction.run(self._remove, row)

    def _row(self, holder: Holder, seconds: float) -> dict[str, object]:
        row: dict[str, object] = {"lock_holder": holder.id, "lock_job": holder.job_id, "seconds": seconds}
        if holder.delivery is None:
            return {**row, "lock_seq": None, "lock_token": None}
        seq, _, token = holder.delivery.receipt.partition(":")
        return {**row, "lock_seq": int(seq), "lock_token": token, "seconds": self._retry_after}

    def _try(self, transaction: OwnTransaction, holder: str, row: Mapping[str, object]) -> Held | Taken | None:
        """One look, with the rows held that are there; None if somebody else added one meanwhile."""
        known = {place for (place,) in transaction.rows(self._rows, row)}
        # In a statement of its own, so that it sees what was committed while this one waited for the rows.
        live = transaction.rows(self._live, {**row, "now": clocks.now()})
        if any(found == holder for _, found, _, _ in live):
            return Held()
        held = {place for place, _, _, _ in live}
        free = next((place for place in range(int(str(row["places"]))) if place not in held), None)
        if free is None:
            return _taken(live)
        if free in known:
            transaction.run(self._take_over, {**row, "lock_place": free, "now": clocks.now()})
            return Held()
        transaction.run(self._add, {**row, "lock_place": free, "now": clocks.now()})
        return None


def _taken(live: Sequence[tuple[Any, ...]]) -> Taken:
    _, _, job_id, until = min(live, key=lambda row: float(row[3]))
    return Taken(job_id, float(until))


def _in_seconds(compile_: Compiler) -> sa.ColumnElement[float]:
    return compile_.now + parameter("seconds", sa.Double)


def _values(compile_: Compiler) -> dict[str, sa.ColumnElement[Any]]:
    return {
        "holder": _HOLDER,
        "job_id": parameter("lock_job", sa.String),
        "seq": parameter("lock_seq", sa.BigInteger),
        "token": parameter("lock_token", sa.String),
        "until": _in_seconds(compile_),
    }


def _add(compile_: Compiler) -> sa.Insert:
    values: dict[str, sa.ColumnElement[Any]] = {"key": _KEY, "place": _PLACE, **_values(compile_)}
    row = sa.select(*values.values()).where(sa.true())
    return compile_.dialect.insert_new(locks, list(values), row, unique=(locks.c.key, locks.c.place))


def _delivery(compile_: Compiler) -> list[sa.ColumnElement[bool]]:
    return [
        jobs.c.seq == locks.c.seq,
        jobs.c.token == locks.c.token,
        jobs.c.state == constant(RESERVED),
        jobs.c.at > compile_.now,
    ]


def _is_live(compile_: Compiler) -> sa.ColumnElement[bool]:
    has_end = sa.and_(locks.c.seq.is_(None), locks.c.until > compile_.now)
    return sa.or_(has_end, sa.exists().where(*_delivery(compile_)))


def _live(compile_: Compiler) -> sa.Select[Any]:
    """The places that are held, by whom, and until when."""
    both = sa.outerjoin(locks, jobs, sa.and_(*_delivery(compile_)))
    has_end = sa.and_(locks.c.seq.is_(None), locks.c.until > compile_.now)
    return (
        sa.select(locks.c.place, locks.c.holder, locks.c.job_id, sa.func.coalesce(jobs.c.at, locks.c.until))
        .select_from(both)
        .where(_OF_KEY, locks.c.place < parameter("places", sa.Integer), sa.or_(has_end, jobs.c.seq.is_not(None)))
    )


def _extend(compile_: Compiler) -> sa.Update:
    is_own = (_OF_KEY, locks.c.holder == _HOLDER, locks.c.seq.is_(None), locks.c.until > compile_.now)
    return sa.update(locks).where(*is_own).values(until=_in_seconds(compile_))


def _old(compile_: Compiler) -> sa.Select[Any]:
    return sa.select(locks.c.key, locks.c.place).where(locks.c.until < compile_.now).order_by(locks.c.until)
