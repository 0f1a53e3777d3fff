"""Renewing leases time after time, from a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from .. import log
from ..errors import ConnectionLost, StoreRefused
from ..threads import start_deaf

logger = logging.getLogger(__name__)

# As often within a lease, so that one lost renewal costs nothing.
_TIMES = 3

# After a renewal that failed, the next try follows sooner than the next one would be due.
_RETRY_SHARE = 10

# No wait of Python's may be longer, in seconds.
_LONGEST = 1e9

# How long an end waits for a renewal that is under way, in seconds: one that hangs in the store must not hang it.
_PATIENCE = 5.0


class Pulse:
    """Calls `renew` three times within each `lease` of so many seconds. A store that is away is tried again sooner.

    `at_once`: the first time without a pause.
    """

    def __init__(self, renew: Callable[[], None], *, lease: float, at_once: bool = False) -> None:
        self._renew = renew
        self._every = min(lease / _TIMES, _LONGEST)
        self._first = 0.0 if at_once else self._every
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leases", daemon=True)
        self._is_failing = False

    def start(self) -> None:
        """Begin."""
        start_deaf(self._thread)

    def stop(self) -> None:
        """End, with the renewal that is under way."""
        self._ended.set()
        self._thread.join(timeout=_PATIENCE)

    def _run(self) -> None:
        pause = self._first
        while not self._ended.wait(pause):
            pause = self._every if self._goes_well() else self._every / _RETRY_SHARE

    def _goes_well(self) -> bool:
        try:
            self._renew()
        except (ConnectionLost, StoreRefused) as error:
            if not self._is_failing:
                logger.warning("Leases could not be renewed; trying again: %s", error)
            self._is_failing = True
            return False
        except Exception:  # whatever a driver raises, the jobs after these need their renewal, too
            log.complain(logger, "Renewing leases failed.")
            return False
        self._is_failing = False
        return True
