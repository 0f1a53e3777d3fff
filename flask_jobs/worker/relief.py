"""The thread that frees what waits behind a job which takes longer than all of its pop was to take."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable

from .. import clock, log
from ..errors import ConnectionLost, StoreRefused
from ..threads import start_deaf

logger = logging.getLogger(__name__)

# After a store did not answer, the next try comes so many seconds later.
_AGAIN = 1.0

# A thread that was needed a moment ago will be needed again: to wake it up costs more than to let it look once more.
_LINGER = 0.05


class Relief:
    """Calls `free` when it is overdue, from a thread of its own, under `lock`.

    The worker holds the lock for whatever `free` must not come amid.
    """

    def __init__(self, free: Callable[[], None]) -> None:
        self.lock = threading.Lock()
        self._free = free
        self._due = math.inf
        self._wake = threading.Event()
        self._is_resting = False
        self._has_ended = False
        self._thread: threading.Thread | None = None

    def expect(self, seconds: float) -> None:
        """All that was taken is to have ended in so many seconds."""
        self._due = clock.monotonic() + seconds
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="relief", daemon=True)
            start_deaf(self._thread)
        elif self._is_resting:
            self._wake.set()

    def rest(self) -> None:
        """Nothing waits any more."""
        with self.lock:
            self._due = math.inf

    def end(self) -> None:
        """It is not needed any more."""
        with self.lock:
            self._due = math.inf
        self._has_ended = True
        self._wake.set()

    def _run(self) -> None:
        while not self._has_ended:
            left = self._due - clock.monotonic()
            if left > 0:
                self._wait(left)
                continue
            with self.lock:
                if self._due <= clock.monotonic():
                    self._due = math.inf if self._has_freed() else clock.monotonic() + _AGAIN

    def _wait(self, seconds: float) -> None:
        if self._wake.wait(min(seconds, _LINGER)) or self._due < math.inf:
            self._wake.clear()
            return
        self._is_resting = True
        # Only now nobody can have missed that it rests.
        if self._due == math.inf and not self._has_ended:
            self._wake.wait()
        self._is_resting = False
        self._wake.clear()

    def _has_freed(self) -> bool:
        try:
            self._free()
        except (ConnectionLost, StoreRefused):  # whoever settles next meets the same, and says so
            return False
        except Exception:  # the jobs that wait are not lost for it: they run when their turn comes
            log.complain(logger, "What waits behind a long job could not be put back.")
        return True
