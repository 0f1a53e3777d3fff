"""Leases: how long each lasts, and the thread that keeps those of running jobs alive."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial

from .. import clock, log
from ..driver import Driver, Renewable
from ..envelope import Reservation
from ..events import about
from .pulse import Pulse

logger = logging.getLogger(__name__)

# A supervisor that renews three times within a lease leaves no less than two thirds of it; here it has missed one.
_MISSED = 0.45


class Lease:
    """How long a delivery is honoured, counted on this host from before the store was asked.

    `elsewhere` tells until when it is honoured because of the renewals of somebody else.
    """

    def __init__(
        self, reservation: Reservation, ends: float, elsewhere: Callable[[], float] = lambda: float("-inf")
    ) -> None:
        self.reservation = reservation
        self.ends = ends
        self._elsewhere = elsewhere

    @property
    def is_over(self) -> bool:
        """Whether somebody else may hold the job by now."""
        return clock.monotonic() >= self.ends and self.left <= 0

    @property
    def left(self) -> float:
        """For how many seconds it is still honoured."""
        return max(self.ends, self._elsewhere()) - clock.monotonic()


class Renewal:
    """Renews what is held, from a thread of its own, if the driver can and it is wanted.

    A store that is away is tried again; a lease that is lost is logged once and then left alone. Where a supervisor
    renews (`is_watched`), this one only does so when the supervisor has not for too long, as `renewed` tells (when it
    last did, on the monotonic clock), or is gone, which `go_on_alone` says. `note` is told when it sent one of its own
    that was confirmed.
    """

    def __init__(
        self,
        driver: Driver,
        *,
        is_wanted: bool,
        retry_after: float,
        is_watched: bool = False,
        renewed: Callable[[], float] = lambda: float("-inf"),
        note: Callable[[float], None] = lambda sent: None,
    ) -> None:
        self._driver = driver if is_wanted and isinstance(driver, Renewable) else None
        self._is_watched = is_watched
        self._note = note
        self._retry_after = driver.retry_after if isinstance(driver, Renewable) else retry_after
        self._held: set[Lease] = set()
        self._elsewhere = lambda: renewed() + self._retry_after
        self._lock = threading.Lock()
        self._pulse: Pulse | None = None

    def __enter__(self) -> Renewal:
        if self._driver is not None:
            self._begin(self._driver)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pulse is not None:
            self._pulse.stop()

    def go_on_alone(self) -> None:
        """Renew from now on, for nobody else does."""
        self._is_watched = False
        if self._driver is not None and self._pulse is not None:
            self._pulse.stop()
            self._begin(self._driver, at_once=True)

    def _begin(self, driver: Renewable, *, at_once: bool = False) -> None:
        # Twice as often as a supervisor does, in a watched worker, to notice in time that that one stands still.
        lease = self._retry_after / 2 if self._is_watched else self._retry_after
        self._pulse = Pulse(partial(self._renew, driver), lease=lease, at_once=at_once)
        self._pulse.start()

    def hold(self, reservations: Sequence[Reservation], *, asked: float) -> list[Lease]:
        """Keep these deliveries alive from now on. `asked`: when their pop was sent, on the monotonic clock."""
        leases = [Lease(reservation, asked + self._retry_after, self._elsewhere) for reservation in reservations]
        with self._lock:
            self._held.update(leases)
        return leases

    def let_go(self, lease: Lease) -> None:
        """Renew it no longer; it is being settled."""
        with self._lock:
            self._held.discard(lease)

    def _renew(self, driver: Renewable) -> None:
        # Before the look at what is held, so that what is held next is not taken for renewed by it.
        sent = clock.monotonic()
        with self._lock:
            leases = [lease for lease in self._held if not self._is_watched or lease.left < _MISSED * self._retry_after]
        if not leases:
            return
        lost = driver.renew([lease.reservation for lease in leases])
        if not lost:
            self._note(sent)
        self._take_note(leases, {reservation.receipt for reservation in lost}, sent + self._retry_after)

    def _take_note(self, leases: list[Lease], lost: set[str], ends: float) -> None:
        for lease in leases:
            if lease.reservation.receipt not in lost:
                lease.ends = ends
                continue
            with self._lock:
                was_held = lease in self._held
                self._held.discard(lease)
            if was_held:  # or it was settled meanwhile, which ends a lease as well
                _tell_lost(lease.reservation)


def _tell_lost(reservation: Reservation) -> None:
    # The warning is that of the settlement which will be refused; one for one mishap is enough.
    envelope = reservation.envelope
    log.note(
        logger,
        logging.INFO,
        "[job:%s] %s has lost its lease while it runs; its settlement will be refused.",
        envelope.id,
        envelope.name,
        fields=about(reservation),
    )
