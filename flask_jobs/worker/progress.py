"""What a running job says of its progress, on its way to the store."""

from __future__ import annotations

import logging
import threading

from .. import clock, log
from ..driver import TracksProgress
from ..envelope import Progress, Reservation
from ..events import about

logger = logging.getLogger(__name__)

# Seconds between two writes for one job.
_EVERY = 0.5


class Reporter:
    """Takes the progress of one attempt and writes the latest at most twice a second.

    What comes too soon after a write is written by a timer, so that the last word is never more than half a
    second late. A store that fails costs the progress, never the job.
    """

    def __init__(self, driver: TracksProgress, reservation: Reservation) -> None:
        self._driver = driver
        self._reservation = reservation
        self._lock = threading.Lock()
        self._latest: Progress | None = None
        self._timer: threading.Timer | None = None
        self._written = float("-inf")
        self._has_failed = False
        self._is_closed = False

    def __call__(self, progress: Progress) -> None:
        """Take the latest progress."""
        with self._lock:
            self._latest = progress
            wait = self._written + _EVERY - clock.monotonic()
            if self._timer is not None or self._is_closed:
                return
            if wait > 0:
                self._timer = threading.Timer(wait, self._write)
                self._timer.daemon = True
                self._timer.start()
                return
        self._write()

    def close(self) -> None:
        """Write nothing more: with the attempt, its progress ends."""
        self._is_closed = True
        # What comes after this look finds it closed; most jobs never say anything.
        if self._latest is None and self._timer is None:
            return
        with self._lock:
            self._latest = None
            timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _write(self) -> None:
        with self._lock:
            progress, self._latest = self._latest, None
            self._timer = None
            self._written = clock.monotonic()
        if progress is None:
            return
        try:
            self._driver.note_progress(self._reservation, progress)
        except Exception:  # progress is a courtesy, and no reason to fail a job
            if not self._has_failed:
                self._has_failed = True
                held = self._reservation
                log.complain(logger, "The progress of job %s is not stored.", held.envelope.id, fields=about(held))
