"""Counts in a table, each with an end."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ... import clock as clocks
from ...errors import StoreRefused
from ...store import Tally
from .access import Access
from .retrying import repeated_if_overtaken
from .schema import tallies
from .statements import Compiler, OwnTransaction, limited, parameter

_KEY = parameter("tally_key", sa.String)
_OF_KEY = tallies.c.key == _KEY

# How often a count looks for what is over, and how much of it it removes then.
_OFTEN, _PORTION = 50, 20

_TURNS = 100


class Tallies:
    """Adds to counts and ends them."""

    def __init__(self, access: Access) -> None:
        compile_ = access.compile
        dialect = compile_.dialect
        self._access = access
        self._look = compile_(sa.select(tallies.c.count, tallies.c.until).where(_OF_KEY))
        self._hold = compile_(dialect.holding(sa.select(tallies.c.count, tallies.c.until).where(_OF_KEY)))
        self._present = compile_(sa.select(compile_.now))
        self._add = compile_(_add(compile_))
        self._write = compile_(_write())
        self._remove = compile_(sa.delete(tallies).where(_OF_KEY))
        self._old = compile_(dialect.taking(limited(_old(compile_))))
        self._calls = _OFTEN

    @repeated_if_overtaken
    def look(self, key: str) -> Tally:
        """The count as it is."""
        with self._access.reading() as transaction:
            now = self._now(transaction)
            for count, until in transaction.rows(self._look, {"tally_key": key}):
                if until > now:
                    return Tally(count, until, until - now)
            return Tally(0, now, 0.0)

    @repeated_if_overtaken
    def add(self, key: str, add: int, seconds: float) -> Tally:
        """Add to the count; the first of it says when it ends."""
        self._sweep()
        with self._access.writing(lasting=False) as transaction:
            for _ in range(_TURNS):
                for before, until in transaction.rows(self._hold, {"tally_key": key}):
                    now = self._now(transaction)
                    ends = until if until > now else now + seconds
                    count = add + (before if until > now else 0)
                    transaction.run(self._write, {"tally_key": key, "count_now": count, "until_now": ends})
                    return Tally(count, ends, ends - now)
                transaction.run(self._add, {"tally_key": key})
        raise StoreRefused(f"The count {key!r} was ended as often as it was begun. Nothing was written.")

    @repeated_if_overtaken
    def clear(self, key: str) -> bool:
        """End the count; says whether there was one."""
        with self._access.writing(lasting=False) as transaction:
            now = self._now(transaction)
            found = transaction.rows(self._look, {"tally_key": key})
            gone = transaction.run(self._remove, {"tally_key": key}) if found else 0
            return gone > 0 and float(found[0][1]) > now

    def _sweep(self) -> None:
        self._calls += 1
        if self._calls < _OFTEN:
            return
        self._calls = 0
        with self._access.writing(lasting=False) as transaction:
            for (key,) in transaction.rows(self._old, {"limit": _PORTION}):
                transaction.run(self._remove, {"tally_key": key})

    def _now(self, transaction: OwnTransaction) -> float:
        return float(transaction.rows(self._present, {"now": clocks.now()})[0][0])


def _add(compile_: Compiler) -> sa.Insert:
    values = {"key": _KEY, "count": sa.literal_column("0", sa.BigInteger), "until": compile_.now}
    row = sa.select(*values.values()).where(sa.true())
    return compile_.dialect.insert_new(tallies, list(values), row, unique=tallies.c.key)


def _write() -> sa.Update:
    count, until = parameter("count_now", sa.BigInteger), parameter("until_now", sa.Double)
    return sa.update(tallies).where(_OF_KEY).values(count=count, until=until)


def _old(compile_: Compiler) -> sa.Select[Any]:
    return sa.select(tallies.c.key).where(tallies.c.until < compile_.now).order_by(tallies.c.until)
