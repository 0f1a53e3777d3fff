"""Limits beside the jobs of a database connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...store import Granted, Place, Turn, stored_key
from ...turns import Quota
from .access import Access
from .bookings import Bookings
from .retrying import repeated_if_overtaken

# How often a booking looks for what is over.
_OFTEN = 50


class Limits:
    """The operations of a store on limits, each a transaction of its own."""

    def __init__(self, access: Access, booked: Bookings) -> None:
        self._access = access
        self._bookings = booked
        self._calls = _OFTEN

    def book(self, quotas: Sequence[Quota], *, owner: str, name: str, ahead: bool) -> Granted | Turn:
        """Charge all quotas now if all allow it, else book the earliest turn that all allow."""
        self._calls += 1
        if self._calls >= _OFTEN:
            self._calls = 0
            self._sweep()
        answer = self._book([_stored(quota) for quota in quotas], owner, stored_key(name), ahead)
        if isinstance(answer, Turn):
            return answer
        return Granted(tuple([Place(quota, place.number) for quota, place in zip(quotas, answer.places, strict=True)]))

    @repeated_if_overtaken
    def give_back(self, owner: str | None, places: Sequence[Place]) -> bool:
        """Let others have what is booked, and what was granted and not used."""
        with self._access.writing(lasting=False) as transaction:
            was_booked = owner is not None and self._bookings.free(transaction, owner)
            self._bookings.put_back(transaction, [Place(_stored(place.quota), place.number) for place in places])
            return was_booked

    @repeated_if_overtaken
    def _book(self, quotas: Sequence[Quota], owner: str, name: str, ahead: bool) -> Granted | Turn:
        with self._access.writing(lasting=False) as transaction:
            return self._bookings.book(transaction, quotas, owner=owner, name=name, ahead=ahead)

    @repeated_if_overtaken
    def _sweep(self) -> None:
        with self._access.writing(lasting=False) as transaction:
            self._bookings.sweep(transaction)


def _stored(quota: Quota) -> Quota:
    return replace(quota, key=stored_key(quota.key))
