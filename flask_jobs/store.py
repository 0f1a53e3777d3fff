"""The store port: what jobs that run at the same time know of each other. Locks, limits and counts stand on it.

Every operation is one atomic step by the store's own clock (the local one, where a connection asks for it), bounded
whatever has gathered there, and leaves nothing behind for ever: what is over is removed in small portions by whoever
comes by. A store that does not answer raises `ConnectionLost` or `StoreRefused`; that is never an answer.

A key is any text but the empty one, compared exactly; each kind of operation has keys of its own.
"""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from .envelope import Reservation
from .errors import InvalidArgument
from .turns import Quota

READABLE = 100
"""Characters of a key that is stored as it is; a longer one, or one with blanks or other letters, as its hash."""

_AS_IT_IS = re.compile(rf"[!-\"$-~][!-~]{{0,{READABLE - 1}}}")


def stored_key(key: str) -> str:
    """What stands for the key in a store: the same for the same text, another for every other."""
    if not isinstance(key, str) or not key:
        raise InvalidArgument(f"A key is text of one character or more, not {key!r}.")
    if _AS_IT_IS.fullmatch(key):
        return key
    return f"#{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lock: one delivery of a job.

    With `delivery`, which must be one of the connection that the store stands beside, the lock lives exactly as long
    as that delivery's lease. Without, it has an end of its own, which `extend` puts off.
    """

    job_id: str
    receipt: str
    delivery: Reservation | None = None

    @property
    def id(self) -> str:
        """The text that names it; two deliveries of one job are two."""
        return stored_key(f"{self.job_id}/{self.receipt}")


@dataclass(frozen=True, slots=True)
class Held:
    """The lock is the caller's."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The lock is another's: of a delivery of this job, for now until this instant by the store's clock."""

    job_id: str
    until: float


@dataclass(frozen=True, slots=True)
class Place:
    """One start that a quota has been charged with."""

    quota: Quota
    number: int


@dataclass(frozen=True, slots=True)
class Granted:
    """All limits allow it now, and each has been charged with one start."""

    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Turn:
    """Not now, but at this instant, in so many seconds. `blocker` is the place of the limit that makes it wait."""

    at: float
    wait: float
    blocker: int


@dataclass(frozen=True, slots=True)
class Tally:
    """A count, which ends in so many seconds at this instant; 0 and an end now if there is none."""

    count: int
    ends: float
    left: float


class Store(ABC):
    """Shared keys for locks, limits and counts. Safe to call from several threads and processes."""

    @abstractmethod
    def acquire(self, key: str, holder: Holder, *, places: int = 1, seconds: float) -> Held | Taken:
        """Take one of the key's places, or say who holds the one that ends first.

        A holder without a delivery holds it for `seconds`. One who holds it already holds it still.
        """

    @abstractmethod
    def extend(self, key: str, holder: Holder, *, seconds: float) -> bool:
        """Hold it for `seconds` from now; false if it is the holder's no longer. Revives nothing."""

    @abstractmethod
    def release(self, key: str, holder: Holder) -> bool:
        """Let go of the holder's own place, and of no other; says whether there was one."""

    @abstractmethod
    def book(self, quotas: Sequence[Quota], *, owner: str, name: str, ahead: bool = True) -> Granted | Turn:
        """Ask all quotas, no two of one key, together for one start, and charge them only if all allow it.

        If not, the owner (a job's id) books under this name the earliest turn that all allow. Asking again before it
        gives the same turn, asking within it is granted, and asking later is asking anew. Without `ahead` nothing is
        booked. Never is more granted and booked than a quota allows.
        """

    @abstractmethod
    def give_back(self, owner: str | None, places: Sequence[Place] = ()) -> bool:
        """Let others have what the owner (if one is named) has booked under any name, and these places that it was
        granted and did not use; says whether it had booked anything."""

    @abstractmethod
    def tally(self, key: str, add: int = 1, *, seconds: float) -> Tally:
        """Add to a count that ends `seconds` after its beginning, and give what it is now. Adding 0 is only looking."""

    @abstractmethod
    def clear(self, key: str) -> bool:
        """End the count; says whether there was one."""
