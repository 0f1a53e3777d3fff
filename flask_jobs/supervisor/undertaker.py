"""Settles for the dead: what a worker process held when it ended, whatever ended it.

The slate says how far it had come, the store what it still holds. What was finished is acknowledged, what had not
started goes back as if it had not been taken, and only what ran is judged, by the same policy as in a worker.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from .. import clock, log, policy
from ..control import JobTimeout
from ..driver import Driver, StoresFailedJobs
from ..envelope import Fail, Hook, Reservation, Settled, Settlement
from ..errors import ConnectionLost, StoreRefused, WorkerDied
from ..events import Events
from ..executor import Attempt
from ..options import JobOptions, WorkerDefaults, resolve
from ..outcome import Died, Done, Interrupted, Outcome, Skipped, TimedOut
from ..slate import LEFT, Held, State, View
from ..threads import start_deaf
from ..worker.late import LatePops
from ..worker.pause import Outage, pause
from ..worker.telling import LEASE_PASSED, Teller
from .leases import delivery

logger = logging.getLogger(__name__)

Decisions = list[tuple[Attempt, Settlement]]
"""What came of the jobs of one lane, and what is to be said of each."""


@dataclass(frozen=True, slots=True)
class Estate:
    """What a worker process has left: its lanes, how it died, and whether a supervisor has ended it on purpose.

    `lost_lease`: that was because of a lease. `timed_out` are the lanes whose job was past its time limit. `died`:
    when, on the monotonic clock.
    """

    lanes: tuple[View, ...]
    cause: str
    on_purpose: bool
    lost_lease: bool
    timed_out: frozenset[int]
    died: float

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to settle and nothing to recover."""
        return all(view.asking is None and not view.unsettled for view in self.lanes)

    @property
    def untold(self) -> Sequence[str]:
        """The jobs that may have been recorded as failed without anybody having begun to call their `failed()`."""
        return [held.id for view in self.lanes for held in view.held if _may_be_untold(view, held)]

    def views(self) -> Sequence[View]:
        """What it holds."""
        return self.lanes

    def renewed(self, view: View, sent: float, lost: Sequence[Held]) -> None:
        """A renewal was confirmed; what is lost is found when it is settled."""

    def judged(self, view: View, held: Held) -> Outcome | None:
        """What is to be said of a job that was with the dead worker; None if it had not been taken up."""
        match held.state:
            case State.DONE:
                return Done()
            case State.SKIPPED:
                return Skipped("it ended quietly, and its worker with it")
            case State.ENTERED | State.STARTED if view.number in self.timed_out:
                limit = 0.0 if view.running is None else view.running.limit
                return TimedOut(limit, JobTimeout(_did_not_end(limit)), ended=True)
            case State.STARTED if not self.on_purpose:
                return Died(WorkerDied(f"The worker process {self.cause} while the job ran."))
            case State.ENTERED | State.STARTED:
                return Interrupted(f"the worker process {self.cause}")
            case _:
                return None


def _did_not_end(limit: float) -> str:
    return f"The attempt did not react to its time limit of {limit:g} s, so its worker process was ended."


def _may_be_untold(view: View, held: Held) -> bool:
    if held.state is State.SETTLED:
        # While it calls `failed()`, the lane has a time limit again.
        return view.in_use and (view.running is None or view.running.limit == LEFT)
    return held.state in (State.ENTERED, State.STARTED)


class Undertaker:
    """Settles estates one after the other, in a thread of its own, for as long as the store takes.

    `errand` is called with the id of each job that has failed for good, so that its `failed()` is called elsewhere;
    also of one that the dead worker has recorded itself, without living to call it.
    """

    def __init__(
        self, driver: Driver, events: Events, *, defaults: WorkerDefaults, errand: Callable[[str], None]
    ) -> None:
        self._driver = driver
        self._events = events
        self._defaults = defaults
        self._errand = errand
        self._sent: set[str] = set()
        self._teller = Teller(events, lambda attempt, fail, error: None)
        self._telling: queue.Queue[tuple[Decisions, Settled]] = queue.Queue()
        self._waiting: queue.SimpleQueue[Estate] = queue.SimpleQueue()
        self._open: list[Estate] = []
        # By lane of the estate at hand: what a lost answer has applied is repeated as it was, and then told of.
        self._decisions: dict[int, Decisions] = {}
        self._late = LatePops()
        self._outage = Outage()
        self._is_giving_up = False
        self._thread = threading.Thread(target=self._run, name="undertaker", daemon=True)
        # Receivers are the application's own, and one that never returns must not keep the next estate from its end.
        self._voice = threading.Thread(target=self._tell, name="teller", daemon=True)

    def start(self) -> None:
        """Begin."""
        start_deaf(self._thread)
        start_deaf(self._voice)

    @property
    def estates(self) -> Sequence[Estate]:
        """Those that are not settled yet."""
        return list(self._open)

    @property
    def is_telling(self) -> bool:
        """Whether receivers of signals are still to be told of what was settled."""
        return self._telling.unfinished_tasks > 0

    def settle(self, estate: Estate) -> None:
        """Settle this one as soon as possible."""
        if not estate.is_empty or estate.untold:
            self._open.append(estate)
            self._waiting.put(estate)

    def give_up(self) -> None:
        """Leave to their leases what the store does not take."""
        self._is_giving_up = True

    def _run(self) -> None:
        while True:
            estate = self._next()
            self._look_again()
            if estate is None:
                continue
            self._decisions.clear()
            for step in self._steps(estate):
                self._take(step)
            self._sent.clear()
            self._open.remove(estate)

    def _next(self) -> Estate | None:
        """The next estate, or None if it is first to be looked at what late pops have brought."""
        due = self._late.next_due
        try:
            return self._waiting.get(timeout=None if due is None else max(0.0, due - clock.monotonic()))
        except queue.Empty:
            return None

    def _look_again(self) -> None:
        for token in self._late.take():
            try:
                self._driver.recover(token)
            except Exception:  # then its lease brings it back
                log.complain(logger, "What a dead worker may have popped could not be looked for again.")

    def _take(self, step: Callable[[], object]) -> None:
        """Try it until the store takes it. What fails otherwise keeps nothing else of the estate from its end."""
        while not self._is_giving_up:
            try:
                step()
            except (ConnectionLost, StoreRefused) as error:
                self._outage.has(error)
                pause(self._outage.next_pause(), until=lambda: self._is_giving_up)
            except Exception:  # a bug of a driver
                log.complain(logger, "Settling what a dead worker held failed; it is left to its lease.")
                return
            else:
                self._outage.is_over()
                return

    def _steps(self, estate: Estate) -> Iterator[Callable[[], object]]:
        """All that is to be done for it, one thing after the other."""
        held = [view for view in estate.lanes if view.unsettled]
        for view in held:
            yield partial(self._settle_lane, estate, view)
        # Only when all lanes are settled, for they may have taken what one pop has brought.
        taken_up = [one.id for view in held for one in view.unsettled if estate.judged(view, one) is not None]
        for token in dict.fromkeys(view.token for view in held):
            yield partial(self._driver.recover, token, taken_up)
        for token in dict.fromkeys(view.asking for view in estate.lanes if view.asking is not None):
            yield partial(self._recover, token, taken_up)
        # Its last breath may have recorded a failure of which it has told nobody.
        for job_id in estate.untold:
            yield partial(self._see_to_the_hook, job_id)

    def _recover(self, token: str, keep: Collection[str]) -> None:
        self._driver.recover(token, keep)
        # A server may still be carrying out what a client that is dead has sent.
        self._late.add(token)

    def _see_to_the_hook(self, job_id: str) -> None:
        if job_id not in self._sent and self._waits_for_its_hook(job_id):
            self._run_elsewhere(job_id)

    def _run_elsewhere(self, job_id: str) -> None:
        self._sent.add(job_id)
        self._errand(job_id)

    def _waits_for_its_hook(self, job_id: str) -> bool:
        if not isinstance(self._driver, StoresFailedJobs):
            return False
        failed = self._driver.find_failed(job_id)
        return failed is not None and failed.hook is Hook.PENDING

    def _settle_lane(self, estate: Estate, view: View) -> None:
        if view.number not in self._decisions:
            self._decisions[view.number] = self._decide(estate, view)
        ended = self._decisions[view.number]
        settled = self._driver.settle([settlement for _, settlement in ended]) if ended else Settled()
        late = {settlement.reservation.receipt for settlement in settled.stale}
        for _, settlement in ended:
            if isinstance(settlement, Fail) and settlement.reservation.receipt not in late:
                self._run_elsewhere(settlement.reservation.envelope.id)
        # Told once, whatever has to be tried again after this.
        self._decisions[view.number] = []
        self._telling.put((ended, settled))

    def _tell(self) -> None:
        while True:
            self._teller.tell_all(*self._telling.get())
            self._telling.task_done()

    def _decide(self, estate: Estate, view: View) -> Decisions:
        still_held = {reservation.envelope.id: reservation for reservation in self._driver.held(view.token)}
        ended: Decisions = []
        for held in view.unsettled:
            outcome = estate.judged(view, held)
            # What the store no longer knows as held was settled by the worker's last breath, or is somebody else's: it
            # says which, when it is asked to settle it.
            reservation = still_held.get(held.id, delivery(held))
            if outcome is not None and (held.id in still_held or isinstance(outcome, Done | Skipped)):
                ended.append(self._decided(estate, view, held, reservation, outcome))
            elif outcome is not None and estate.lost_lease:
                self._events.settlement_lost(reservation, job=None, reason=LEASE_PASSED)
        return ended

    def _decided(
        self, estate: Estate, view: View, held: Held, reservation: Reservation, outcome: Outcome
    ) -> tuple[Attempt, Settlement]:
        options, began = resolve(None, self._defaults), estate.died
        running = view.running
        if running is not None and running.position < len(view.held) and view.held[running.position] is held:
            began = running.began
            options = JobOptions.load(running.options) if running.options else options
        settlement = policy.decide(reservation, outcome, options, now=reservation.now, jitter=random.random())
        return Attempt(outcome, options, None, estate.died - began), settlement
