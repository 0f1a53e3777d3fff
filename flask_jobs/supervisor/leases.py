"""The leases of what all workers hold, renewed from outside: a job that never yields keeps its lease."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from .. import clock
from ..driver import Renewable
from ..envelope import Counters, Envelope, Reservation
from ..slate import Held, View
from ..worker.pulse import Pulse


class Holder(Protocol):
    """Whoever holds jobs: a worker, or what a dead one has left behind."""

    def views(self) -> Sequence[View]:
        """What it holds."""

    def renewed(self, view: View, sent: float, lost: Sequence[Held]) -> None:
        """A renewal of what the view holds, sent at this instant, was confirmed, but for those that were lost."""


class Keeper:
    """Renews, from a thread of its own, what the holders hold and have not settled.

    `holders` gives those whose leases are to live on: not a worker that has been stopped, for example.
    """

    def __init__(self, driver: Renewable, holders: Callable[[], Sequence[Holder]]) -> None:
        self._driver = driver
        self._holders = holders
        self._pulse = Pulse(self._renew, lease=driver.retry_after)

    def __enter__(self) -> Keeper:
        self._pulse.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._pulse.stop()

    def _renew(self) -> None:
        owed = [(holder, view, view.unsettled) for holder in self._holders() for view in holder.views()]
        deliveries = [delivery(held) for _, _, unsettled in owed for held in unsettled]
        if not deliveries:
            return
        sent = clock.monotonic()
        gone = {(one.envelope.id, one.receipt) for one in self._driver.renew(deliveries)}
        for holder, view, unsettled in owed:
            holder.renewed(view, sent, [held for held in unsettled if (held.id, held.receipt) in gone])


def delivery(held: Held) -> Reservation:
    """What names the delivery to a driver, without the rest of the job."""
    envelope = Envelope(held.id, held.name, held.queue, body="")
    return Reservation(envelope, Counters(attempts=held.attempt), held.receipt, now=0.0, pushed_at=0.0)
