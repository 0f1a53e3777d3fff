"""What a worker has taken and not begun yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence

from ..driver import Driver
from ..slate import NoLane, State
from .late import LatePops
from .processor import Delivery
from .relief import Relief
from .settler import Settler

# What was to take 20 ms at most is waited for twice as long, in seconds.
_PATIENCE = 0.04


class Hand:
    """Gives the jobs of one pop out one by one, and puts back, uncharged, what is not begun.

    Behind a job that takes too long that is done from another thread, with what was finished before it. `let_go` is
    called with each delivery that goes back.
    """

    def __init__(
        self, driver: Driver, lane: NoLane, settler: Settler, *, let_go: Callable[[Sequence[Delivery]], None]
    ) -> None:
        self._driver = driver
        self._lane = lane
        self._settler = settler
        self._let_go = let_go
        self._relief = Relief(self._free)
        self._token = ""
        self._waiting: deque[Delivery] = deque()
        # What of this pop is not to be put back: what is begun, and what is in other hands.
        self._kept: set[str] = set()
        # A pop of which something is to be put back, and what of it is not; None if nobody knows what it has brought.
        self._lost: tuple[str, set[str] | None] | None = None
        self._late = LatePops()
        self._is_out = False

    def hold(self, token: str, deliveries: Sequence[Delivery], *, others: Collection[str] = ()) -> None:
        """The pop with this token has brought these. `others`: jobs that it has brought somebody else."""
        self._token, self._kept = token, set(others)
        self._waiting.extend(deliveries)
        if len(deliveries) > 1:
            self._relief.expect(_PATIENCE)

    def next(self, *, is_over: Callable[[], bool]) -> Delivery | None:
        """The next one to begin; None if there is none, or if it is over, and then they are put back."""
        with self._relief.lock:
            if not self._waiting or self._waiting[0].lease.is_over or is_over():
                return None
            delivery = self._waiting.popleft()
            self._kept.add(delivery.reservation.envelope.id)
            self._is_out = True
            return delivery

    def has_run(self) -> None:
        """The job that was given out has run; it is settled by whoever runs jobs."""
        with self._relief.lock:
            self._is_out = False

    def drop(self) -> None:
        """What has not begun is to be put back, by the next `recover`."""
        self._relief.rest()
        self._put_aside()

    def lose(self, token: str) -> None:
        """The answer to this pop has not arrived; whatever it has brought is to be put back."""
        self._lost = token, None

    def recover(self) -> None:
        """Put back what is to be, as often as it takes until the store has said so."""
        for token in self._late.take():
            self._driver.recover(token)
        if self._lost is None:
            return
        token, kept = self._lost
        self._driver.recover(token, keep=(kept or set()) | self._settler.ids)
        self._lost = None
        if kept is None:
            self._late.add(token)

    def end(self) -> None:
        """Nothing is taken any more."""
        self._relief.end()

    def _put_aside(self) -> list[Delivery]:
        dropped = list(self._waiting)
        if dropped:
            # From here on they are not ours to run: whether the store has put them back is known only when it says so.
            self._lost = self._token, self._kept
            self._waiting.clear()
            self._let_go(dropped)
        return dropped

    def _free(self) -> None:
        """Settle what is finished and put back what waits, while a job runs that takes too long."""
        if self._is_out:
            self._settler.settle_aside()
        dropped = self._put_aside()
        self.recover()
        for delivery in dropped:
            self._lane.end(delivery.position, State.SETTLED)
