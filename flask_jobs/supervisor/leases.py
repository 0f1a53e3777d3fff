"""The leases of what all workers hold, renewed from outside: a job that never yields keeps its lease."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from .. import clock, log
from ..driver import Renewable
from ..envelope import Counters, Envelope, Reservation
from ..errors import ConnectionLost, StoreRefused
from ..slate import Held, View
from ..threads import start_deaf

logger = logging.getLogger(__name__)

# As often within a lease, so that one lost renewal costs nothing.
_TIMES = 3

# After a renewal that failed, the next try follows sooner than the next one would be due.
_RETRY_SHARE = 10

_LONGEST = 1e9
_PATIENCE = 5.0


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
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
        self._is_failing = False

    def __enter__(self) -> Keeper:
        start_deaf(self._thread)
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        # A renewal that hangs in the store must not hang the end of the command.
        self._thread.join(timeout=_PATIENCE)

    def _run(self) -> None:
        every = min(self._driver.retry_after / _TIMES, _LONGEST)
        pause = every
        while not self._ended.wait(pause):
            pause = every if self._renew() else every / _RETRY_SHARE

    def _renew(self) -> bool:
        try:
            owed = [(holder, view, view.unsettled) for holder in self._holders() for view in holder.views()]
            deliveries = [delivery(held) for _, _, unsettled in owed for held in unsettled]
            if not deliveries:
                return True
            sent = clock.monotonic()
            gone = {(one.envelope.id, one.receipt) for one in self._driver.renew(deliveries)}
        except (ConnectionLost, StoreRefused) as error:
            if not self._is_failing:
                logger.warning("Leases could not be renewed; trying again: %s", error)
            self._is_failing = True
            return False
        except Exception:  # whatever a driver raises, the jobs after these need their renewal, too
            log.complain(logger, "Renewing leases failed.")
            return False
        self._is_failing = False
        for holder, view, unsettled in owed:
            holder.renewed(view, sent, [held for held in unsettled if (held.id, held.receipt) in gone])
        return True


def delivery(held: Held) -> Reservation:
    """What names the delivery to a driver, without the rest of the job."""
    envelope = Envelope(held.id, held.name, held.queue, body="")
    return Reservation(envelope, Counters(attempts=held.attempt), held.receipt, now=0.0, pushed_at=0.0)
