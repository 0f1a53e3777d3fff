"""What a job with ties passes before its body starts: its batch may be cancelled, its unique key may be due back."""

from __future__ import annotations

from ..control import JobInterrupted
from ..driver import Driver, HoldsKeys, RunsBatches
from ..envelope import Reservation


class StoredGates:
    """Asks the driver that has delivered the job."""

    def __init__(self, driver: Driver, reservation: Reservation) -> None:
        self._driver = driver
        self._reservation = reservation

    def excuse(self) -> str | None:
        """Why the job ends without having run, or None if it is to run."""
        envelope = self._reservation.envelope
        ties = envelope.ties
        if ties is None or ties.batch is None or ties.is_callback or not isinstance(self._driver, RunsBatches):
            return None
        if envelope.retried_from is not None or self._reservation.attempt > 1:
            # Whoever retries it wants it done, and its own failure may be what has cancelled the batch; and what a
            # first attempt has begun is brought to its end.
            return None
        batch = self._driver.batch(ties.batch)
        is_cancelled = batch is not None and batch.cancelled_at is not None
        return f"its batch {ties.batch} was cancelled" if is_cancelled else None

    def enter(self) -> None:
        """Let the body start: give back a key that is held until then."""
        ties = self._reservation.envelope.ties
        if ties is None or ties.key is None or not ties.key.until_processing:
            return
        if isinstance(self._driver, HoldsKeys) and not self._driver.give_back_key(self._reservation):
            raise JobInterrupted("its lease had passed to somebody else before its body started")
