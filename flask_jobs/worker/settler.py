"""What a worker has finished and the store does not know of yet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from .. import clock, log
from ..driver import Driver
from ..envelope import Settled, Settlement
from ..errors import ConnectionLost, StoreRefused
from ..slate import NoLane, State
from .pause import Outage, pause
from .processor import Verdict
from .telling import Teller

logger = logging.getLogger(__name__)


class Settler:
    """Keeps verdicts until the store has them, tells of them then, and gives up those whose lease is over.

    `is_hurried` says whether the worker must go at once.
    """

    def __init__(
        self, driver: Driver, lane: NoLane, teller: Teller, outage: Outage, *, is_hurried: Callable[[], bool]
    ) -> None:
        self._driver = driver
        self._lane = lane
        self._teller = teller
        self._outage = outage
        self._is_hurried = is_hurried
        self._finished: list[Verdict] = []
        self._left: list[Verdict] = []
        self._aside: list[tuple[list[Verdict], Settled]] = []
        self.was_cut_short = False
        self.telling = 0.0
        """What it took to tell of one of those told of last, in seconds."""

    @property
    def settlements(self) -> Sequence[Settlement]:
        """What is to be settled."""
        return [verdict.settlement for verdict in self._finished]

    @property
    def ids(self) -> set[str]:
        """The jobs that the store still takes for running, though they are not."""
        return {verdict.delivery.reservation.envelope.id for verdict in (*self._finished, *self._left)}

    @property
    def leaves_work(self) -> bool:
        """Whether something is left to the supervisor, which has more time to settle it."""
        return bool(self._left)

    def add(self, verdict: Verdict) -> None:
        """This has come of a job."""
        self._finished.append(verdict)

    def settle(self) -> None:
        """Settle all of it now, trying again while its leases live."""
        while self._finished:
            try:
                settled = self._driver.settle(self.settlements)
            except Exception as error:  # its outcome is known only here, so it is kept whatever went wrong
                self._note_failure(error)
                self.give_up_the_overdue()
                if self._finished:
                    pause(self._outage.next_pause(), until=self._is_hurried)
            else:
                self._outage.is_over()
                self.has_settled(settled)

    def settle_aside(self) -> None:
        """Settle it once, while a job runs in the worker's own thread, which tells of it later."""
        if self._finished:
            settled = self._driver.settle(self.settlements)
            self._note_settled(self._finished)
            self._aside.append((self._finished, settled))
            self._finished = []

    def has_settled(self, settled: Settled, *, is_noted: bool = False) -> None:
        """Tell of what was settled, now that the store has answered. `is_noted`: the lane shows it already."""
        finished, self._finished = self._finished, []
        if finished and not is_noted:
            self._note_settled(finished)
        self._tell(finished, settled)

    def tell_of_those_aside(self) -> None:
        """Tell of what was settled while a job ran."""
        while self._aside:
            self._tell(*self._aside.pop(0))

    def give_up_the_overdue(self) -> None:
        """Stop trying to settle what somebody else may hold by now, and all if the worker must go at once."""
        kept = []
        for verdict in self._finished:
            if not verdict.delivery.lease.is_over and not self._is_hurried():
                kept.append(verdict)
                continue
            self.was_cut_short |= self._is_hurried()
            if self._lane.is_watched and not verdict.delivery.lease.is_over:
                self._left.append(verdict)
                continue
            self._lane.end(verdict.delivery.position, State.SETTLED)
            reason = "the store was away as long as the lease lived"
            self._teller.tell_lost(verdict.attempt, verdict.settlement, reason, known=False)
        self._finished = kept

    def _note_settled(self, verdicts: Sequence[Verdict]) -> None:
        for verdict in verdicts:
            self._lane.end(verdict.delivery.position, State.SETTLED)

    def _tell(self, verdicts: Sequence[Verdict], settled: Settled) -> None:
        if not verdicts:
            return
        began = clock.monotonic()
        self._lane.use()
        try:
            self._teller.tell_all([(verdict.attempt, verdict.settlement) for verdict in verdicts], settled)
        finally:
            self._lane.leave()
        if all(verdict.is_done for verdict in verdicts):  # a `failed()` is no measure for the others
            self.telling = (clock.monotonic() - began) / len(verdicts)

    def _note_failure(self, error: Exception) -> None:
        if isinstance(error, ConnectionLost | StoreRefused):
            self._outage.has(error)
        else:
            log.complain(logger, "Settling failed; trying again.")
