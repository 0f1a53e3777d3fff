"""Limits in tables: what is taken of each quota, and who has booked a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

from ... import clock as clocks
from ...store import Granted, Place, Turn
from ...turns import Found, Line, Quota, earliest, is_now, reopens, turn_begins
from .schema import bookings, limits, slices
from .statements import Compiler, OwnTransaction, constant, limited, padded, parameter
from .statements import places as parameters

_QUOTA = parameter("quota_key", sa.String)
_NUMBER = parameter("slice_number", sa.BigInteger)
_OWNER = parameter("owner", sa.String)
_NAME = parameter("limiter", sa.String)
_SLICE = (slices.c.key == _QUOTA, slices.c.number == _NUMBER)
_BOOKING = (bookings.c.owner == _OWNER, bookings.c.name == _NAME, bookings.c.key == _QUOTA)
_END = parameter("end", sa.BigInteger)

# How much of what is over is removed at once.
_PORTION = 100


@dataclass(frozen=True, slots=True)
class _Booking:
    """A slice that somebody has booked."""

    owner: str
    name: str
    key: str
    number: int
    reopens: int


class Bookings:
    """Charges quotas and books turns. Rows are locked in one order everywhere: limits by key, then the others."""

    def __init__(self, compile_: Compiler) -> None:
        dialect = compile_.dialect
        limit = sa.select(limits.c.amount, limits.c.frontier, limits.c.last).where(limits.c.key == _QUOTA)
        self.present = compile_(sa.select(compile_.now))
        self._limit = compile_(dialect.holding(limit))
        self._add_limit = compile_(_add_limit(compile_))
        self._keep_limit = compile_(_keep_limit())
        self._reopen = compile_(_reopen())
        self._taken = compile_(_taken())
        self._take = compile_(sa.update(slices).where(*_SLICE).values(taken=slices.c.taken + constant(1)))
        self._add_slice = compile_(_add_slice())
        is_taken = slices.c.taken > constant(0)
        self._put_back = compile_(sa.update(slices).where(*_SLICE, is_taken).values(taken=slices.c.taken - constant(1)))
        self._own = cache(lambda amount: compile_(_own(amount)))
        self._add_booking = compile_(_add_booking())
        self._remove_booking = compile_(sa.delete(bookings).where(*_BOOKING))
        self._old_bookings = compile_(dialect.taking(limited(_old_bookings(compile_))))
        self._old_limits = compile_(dialect.taking(limited(_old_limits(compile_))))
        self._old_slices = compile_(limited(_old_slices()))
        self._remove_slices = compile_(sa.delete(slices).where(slices.c.key == _QUOTA, slices.c.number < _END))
        self._remove_limit = compile_(sa.delete(limits).where(limits.c.key == _QUOTA))

    def book(
        self, transaction: OwnTransaction, quotas: Sequence[Quota], *, owner: str, name: str, ahead: bool
    ) -> Granted | Turn:
        """Charge all quotas now if all allow it, else book the earliest turn that all allow."""
        held = self._hold(transaction, quotas)
        # Asked for when all rows are held, so that what others did before lies before it.
        now = self._now(transaction)
        own = [found for found in self._booked_by(transaction, owner) if found.name == name]
        by_key = {found.key: found.number for found in own}
        if own and by_key.keys() == held.keys():
            numbers = [by_key[quota.key] for quota in quotas]
            if is_now(quotas, numbers, now):
                self._forget(transaction, own)
                return Granted(tuple(map(Place, quotas, numbers)))
            if now < (begin := turn_begins(quotas, numbers)):
                blocker = next(at for at, quota in enumerate(quotas) if quota.begin(numbers[at]) == begin)
                return Turn(begin, begin - now, blocker)
        if own:
            self._free(transaction, own)
            held = self._hold(transaction, quotas)
        return self._book_anew(transaction, quotas, held, now, owner=owner, name=name, ahead=ahead)

    def free(self, transaction: OwnTransaction, *owners: str) -> bool:
        """Let others have what these owners have booked; says whether it was anything."""
        booked = self._booked_by(transaction, *owners)
        self._free(transaction, booked)
        return bool(booked)

    def put_back(self, transaction: OwnTransaction, places: Sequence[Place]) -> None:
        """Let others have what was granted and not used."""
        for place in sorted(places, key=lambda place: place.quota.key):
            row = {"quota_key": place.quota.key, "slice_number": place.number}
            transaction.run(self._reopen, {**row, "reopens": reopens(place.quota, place.number)})
            transaction.run(self._put_back, row)

    def sweep(self, transaction: OwnTransaction) -> None:
        """Remove a portion of what is over."""
        for owner, name, key in transaction.rows(self._old_bookings, {"limit": _PORTION}):
            transaction.run(self._remove_booking, {"owner": owner, "limiter": name, "quota_key": key})
        for (key,) in transaction.rows(self._old_limits, {"limit": 1 + _PORTION // 10}):
            if not self._remove_old(transaction, key, before=None):
                transaction.run(self._remove_limit, {"quota_key": key})

    def _book_anew(
        self,
        transaction: OwnTransaction,
        quotas: Sequence[Quota],
        held: Mapping[str, _Row],
        now: float,
        *,
        owner: str,
        name: str,
        ahead: bool,
    ) -> Granted | Turn:
        lines = [held[quota.key].line(quota, now, self._reader(transaction, quota)) for quota in quotas]
        found = earliest(now, lines)
        places: list[Place] = []
        if found.blocker is None or ahead:
            places = [Place(line.quota, line.take(found.at)) for line in lines]
        self._keep(transaction, lines, places, now)
        if found.blocker is None:
            return Granted(tuple(places))
        for place in places:
            self._note(transaction, place, owner=owner, name=name)
        return _turn(found, found.blocker, now)

    def _hold(self, transaction: OwnTransaction, quotas: Sequence[Quota]) -> dict[str, _Row]:
        return {quota.key: self._held(transaction, quota) for quota in sorted(quotas, key=lambda quota: quota.key)}

    def _held(self, transaction: OwnTransaction, quota: Quota) -> _Row:
        row = {"quota_key": quota.key, "amount": quota.amount}
        while not (found := transaction.rows(self._limit, row)):
            # It may also have been removed while this one waited for it.
            transaction.run(self._add_limit, row)
        return _Row(*found[0])

    def _reader(self, transaction: OwnTransaction, quota: Quota) -> Any:
        def read(first: int, last: int) -> Mapping[int, int]:
            row = {"quota_key": quota.key, "first": first, "end": last + 1}
            return dict(transaction.rows(self._taken, row))

        return read

    def _keep(self, transaction: OwnTransaction, lines: Sequence[Line], places: Sequence[Place], now: float) -> None:
        """Write down what the search has found out, and what is taken."""
        for line in sorted(lines, key=lambda line: line.quota.key):
            quota = line.quota
            row = {
                "quota_key": quota.key,
                "amount_now": quota.amount,
                "frontier_now": line.frontier,
                "last_now": line.last,
                "until_now": max(now, quota.end(line.last)),
            }
            transaction.run(self._keep_limit, row)
        for place in sorted(places, key=lambda place: place.quota.key):
            row = {"quota_key": place.quota.key, "slice_number": place.number}
            if not transaction.run(self._take, row):
                transaction.run(self._add_slice, row)
                # A new slice is a good moment to remove old ones, for there are no more of these than of those.
                self._remove_old(transaction, place.quota.key, before=reopens(place.quota, place.quota.slice_at(now)))

    def _remove_old(self, transaction: OwnTransaction, key: str, *, before: int | None) -> bool:
        """Remove a portion of the slices before this one (None: of all); says whether there was any."""
        row = {"quota_key": key, "end": 1 << 62 if before is None else before, "limit": _PORTION}
        old = transaction.rows(self._old_slices, row)
        if old:
            transaction.run(self._remove_slices, {"quota_key": key, "end": old[-1][0] + 1})
        return bool(old)

    def _note(self, transaction: OwnTransaction, place: Place, *, owner: str, name: str) -> None:
        quota, number = place.quota, place.number
        row = {"owner": owner, "limiter": name, "quota_key": quota.key, "slice_number": number}
        transaction.run(self._add_booking, {**row, "reopens": reopens(quota, number), "until": quota.begin(number + 1)})

    def _booked_by(self, transaction: OwnTransaction, *owners: str) -> list[_Booking]:
        rows = padded("owner", owners)
        return [_Booking(*row) for row in transaction.rows(self._own(len(rows)), rows)]

    def _forget(self, transaction: OwnTransaction, booked: Sequence[_Booking]) -> None:
        for one in booked:
            transaction.run(self._remove_booking, {"owner": one.owner, "limiter": one.name, "quota_key": one.key})

    def _free(self, transaction: OwnTransaction, booked: Sequence[_Booking]) -> None:
        for one in sorted(booked, key=lambda one: one.key):
            row = {"quota_key": one.key, "slice_number": one.number, "reopens": one.reopens}
            transaction.run(self._reopen, row)
            # Who removes the booking gives back what it stands for, and nobody else.
            if transaction.run(self._remove_booking, {**row, "owner": one.owner, "limiter": one.name}):
                transaction.run(self._put_back, row)

    def _now(self, transaction: OwnTransaction) -> float:
        return float(transaction.rows(self.present, {"now": clocks.now()})[0][0])


@dataclass(frozen=True, slots=True)
class _Row:
    """A quota's row, held."""

    amount: int
    frontier: int
    last: int

    def line(self, quota: Quota, now: float, read: Any) -> Line:
        # Where there is room depends on the amount, which the application may change at any time.
        frontier = self.frontier if self.amount == quota.amount else None
        return Line(quota, now, read, frontier=frontier, last=self.last)


def _turn(found: Found, blocker: int, now: float) -> Turn:
    return Turn(found.at, found.at - now, blocker)


def _add_limit(compile_: Compiler) -> sa.Insert:
    nowhere = sa.literal_column("0", sa.BigInteger)
    values = {
        "key": _QUOTA,
        "amount": parameter("amount", sa.Integer),
        "frontier": nowhere,
        "last": nowhere,
        "until": compile_.now,
    }
    row = sa.select(*values.values()).where(sa.true())
    return compile_.dialect.insert_new(limits, list(values), row, unique=limits.c.key)


def _keep_limit() -> sa.Update:
    return (
        sa.update(limits)
        .where(limits.c.key == _QUOTA)
        .values(
            amount=parameter("amount_now", sa.Integer),
            frontier=parameter("frontier_now", sa.BigInteger),
            last=parameter("last_now", sa.BigInteger),
            until=parameter("until_now", sa.Double),
        )
    )


def _reopen() -> sa.Update:
    first = parameter("reopens", sa.BigInteger)
    earlier = sa.case((limits.c.frontier > first, first), else_=limits.c.frontier)
    return sa.update(limits).where(limits.c.key == _QUOTA).values(frontier=earlier)


def _taken() -> sa.Select[Any]:
    first = parameter("first", sa.BigInteger)
    return sa.select(slices.c.number, slices.c.taken).where(
        slices.c.key == _QUOTA, slices.c.number >= first, slices.c.number < _END
    )


def _add_slice() -> sa.Insert:
    return sa.insert(slices).values(key=_QUOTA, number=_NUMBER, taken=sa.literal_column("1"))


def _own(amount: int) -> sa.Select[Any]:
    booking = sa.select(bookings.c.owner, bookings.c.name, bookings.c.key, bookings.c.number, bookings.c.reopens)
    return booking.where(bookings.c.owner.in_(parameters("owner", amount, sa.String)))


def _add_booking() -> sa.Insert:
    return sa.insert(bookings).values(
        owner=_OWNER,
        name=_NAME,
        key=_QUOTA,
        number=_NUMBER,
        reopens=parameter("reopens", sa.BigInteger),
        until=parameter("until", sa.Double),
    )


def _old_bookings(compile_: Compiler) -> sa.Select[Any]:
    is_over = bookings.c.until < compile_.now
    return sa.select(bookings.c.owner, bookings.c.name, bookings.c.key).where(is_over).order_by(bookings.c.until)


def _old_limits(compile_: Compiler) -> sa.Select[Any]:
    return sa.select(limits.c.key).where(limits.c.until < compile_.now).order_by(limits.c.until)


def _old_slices() -> sa.Select[Any]:
    return sa.select(slices.c.number).where(slices.c.key == _QUOTA, slices.c.number < _END).order_by(slices.c.number)
