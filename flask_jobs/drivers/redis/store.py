"""The store beside the jobs of a Redis connection: each operation one script, on the same node."""

from __future__ import annotations

from collections.abc import Sequence

from ...store import Granted, Held, Holder, Place, Store, Taken, Tally, Turn, stored_key
from ...turns import Quota, reopens
from ...validation import seconds as length
from .keys import member
from .scripts import Argument, Scripts
from .values import decoded


class RedisStore(Store):
    """Locks, limits and counts under the connection's own head of keys."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def acquire(self, key: str, holder: Holder, *, places: int = 1, seconds: float) -> Held | Taken:
        """Take one of the key's places, or say who holds the one that ends first."""
        limits: list[Argument] = [places, repr(length(seconds, what="seconds"))]
        answer = self._scripts.run("acquire", stored_key(key), *_holder(holder), *limits)
        return Taken(decoded(answer[0]), float(answer[1])) if answer else Held()

    def extend(self, key: str, holder: Holder, *, seconds: float) -> bool:
        """Hold it for `seconds` from now; false if it is the holder's no longer."""
        return bool(self._scripts.run("extend", stored_key(key), holder.id, repr(length(seconds, what="seconds"))))

    def release(self, key: str, holder: Holder) -> bool:
        """Let go of the holder's own place, and of no other."""
        return bool(self._scripts.run("release", stored_key(key), holder.id))

    def book(self, quotas: Sequence[Quota], *, owner: str, name: str, ahead: bool = True) -> Granted | Turn:
        """Ask all quotas together for one start, and charge them only if all allow it."""
        arguments: list[Argument] = [owner, stored_key(name), "1" if ahead else "", len(quotas)]
        for quota in quotas:
            arguments += [stored_key(quota.key), quota.amount, repr(quota.length), quota.span]
        is_granted, *answer = self._scripts.run("book", *arguments)
        if is_granted:
            return Granted(tuple([Place(quota, int(number)) for quota, number in zip(quotas, answer, strict=True)]))
        at, wait, blocker = answer
        return Turn(float(at), float(wait), int(blocker))

    def give_back(self, owner: str | None, places: Sequence[Place] = ()) -> bool:
        """Let others have what the owner has booked, and these places that it did not use."""
        arguments: list[Argument] = [owner or "", len(places)]
        for place in places:
            arguments += [stored_key(place.quota.key), place.number, reopens(place.quota, place.number)]
        return bool(self._scripts.run("give_back", *arguments))

    def tally(self, key: str, add: int = 1, *, seconds: float) -> Tally:
        """Add to a count, and give what it is now."""
        count, ends, left = self._scripts.run("tally", stored_key(key), add, repr(length(seconds, what="seconds")))
        return Tally(count, float(ends), float(left))

    def clear(self, key: str) -> bool:
        """End the count; says whether there was one."""
        return bool(self._scripts.run("end_tally", stored_key(key)))


def _holder(holder: Holder) -> list[Argument]:
    delivery = holder.delivery
    if delivery is None:
        return [holder.id, holder.job_id, "", ""]
    job = delivery.envelope
    return [holder.id, holder.job_id, job.queue, member(delivery.receipt, job.id)]
