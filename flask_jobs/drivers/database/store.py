"""The store beside the jobs of a database connection, in tables of its own."""

from __future__ import annotations

from collections.abc import Sequence

from ...store import Granted, Held, Holder, Place, Store, Taken, Tally, Turn, stored_key
from ...turns import Quota
from ...validation import seconds as length
from .access import Access
from .limits import Limits
from .locks import Locks
from .tallies import Tallies


class DatabaseStore(Store):
    """Locks, limits and counts, each operation a transaction of the driver's own."""

    def __init__(self, access: Access) -> None:
        self._locks = Locks(access, retry_after=access.retry_after)
        self._limits = Limits(access, access.bookings)
        self._tallies = Tallies(access)

    def acquire(self, key: str, holder: Holder, *, places: int = 1, seconds: float) -> Held | Taken:
        """Take one of the key's places, or say who holds the one that ends first."""
        self._locks.sweep()
        return self._locks.acquire(stored_key(key), holder, places, length(seconds, what="seconds"))

    def extend(self, key: str, holder: Holder, *, seconds: float) -> bool:
        """Hold it for `seconds` from now; false if it is the holder's no longer."""
        return self._locks.extend(stored_key(key), holder, length(seconds, what="seconds"))

    def release(self, key: str, holder: Holder) -> bool:
        """Let go of the holder's own place, and of no other."""
        return self._locks.release(stored_key(key), holder)

    def book(self, quotas: Sequence[Quota], *, owner: str, name: str, ahead: bool = True) -> Granted | Turn:
        """Ask all quotas together for one start, and charge them only if all allow it."""
        return self._limits.book(quotas, owner=owner, name=name, ahead=ahead)

    def give_back(self, owner: str | None, places: Sequence[Place] = ()) -> bool:
        """Let others have what the owner has booked, and these places that it did not use."""
        return self._limits.give_back(owner, places)

    def tally(self, key: str, add: int = 1, *, seconds: float) -> Tally:
        """Add to a count, and give what it is now."""
        if not add:
            return self._tallies.look(stored_key(key))
        return self._tallies.add(stored_key(key), add, length(seconds, what="seconds"))

    def clear(self, key: str) -> bool:
        """End the count; says whether there was one."""
        return self._tallies.clear(stored_key(key))
