"""The supervisor: starts worker processes, watches over them, and settles for those that die."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable
from contextlib import ExitStack

from .. import clock, log
from ..driver import Driver, Renewable
from ..events import Events
from ..slate import Order, View
from ..worker.farewell import waiting_for
from ..worker.handlers import STOPS
from ..worker.pause import pause
from ..worker.settings import Stop
from .child import Child, Ended, reap_the_adopted
from .ear import Ear
from .errands import Errands
from .leases import Holder, Keeper
from .notify import ServiceManager
from .oom import OutOfMemory
from .settings import SupervisorSettings
from .signals import Signals
from .slots import Next, Slot, after
from .undertaker import Estate, Undertaker
from .verdicts import Kill, Rules, Watched, must_end, timed_out

logger = logging.getLogger(__name__)

# How a process ends that was asked to before it could hear it.
_POLITE = tuple(-number for number in STOPS)

# Seconds between two looks at the slates.
_TICK = 0.1

# How long workers have, in seconds, to cut short what runs and put it back, before they are ended.
_HURRY = 3.0

# How long it is waited, in seconds, for the last settlements and errands when no worker is left.
ALONE = 30.0

# So many starts in a row that came to nothing are enough.
_MOST_FAILED_STARTS = 5

# What the store may take for the last settlements when everything else has ended, in seconds.
_LAST_PATIENCE = 10.0

# The same for a store that was away for as long as anybody was to wait: it may be back.
_LAST_TRY = 1.0

# And receivers of signals, to hear of them.
_LAST_WORDS = 2.0


class Supervisor:
    """Runs no job itself. `why_leave` is asked every second or two whether all is to end; it may ask the store."""

    def __init__(
        self,
        driver: Driver,
        events: Events,
        settings: SupervisorSettings,
        *,
        why_leave: Callable[[], Stop | None] = lambda: None,
    ) -> None:
        retry_after = driver.retry_after if isinstance(driver, Renewable) else settings.retry_after
        self._settings = settings
        self._rules = Rules(retry_after, settings.defaults.timeout or 0.0, settings.timeouts)
        self._ear = Ear(why_leave)
        self._errands = Errands()
        self._undertaker = Undertaker(driver, events, defaults=settings.defaults, errand=self._errands.add)
        self._keeper = Keeper(driver, self._holders) if settings.renew and isinstance(driver, Renewable) else None
        self._slots = [Slot(number) for number in range(1, settings.processes + 1)]
        self._signals = Signals()
        self._manager = ServiceManager.from_environment()
        self._memory = OutOfMemory()
        self._stopping: Stop | None = None
        self._exit_code = 0
        self._has_been_ready = False
        self._failed_starts = 0
        self._hurry_at = float("inf")
        self._kill_at = float("inf")
        self._is_hurried = False
        self._was_paused = False
        self._began = 0.0
        self._alone_since = float("inf")

    def run(self) -> int:
        """Work until there is a reason to stop, and return what the process should exit with."""
        self._began = clock.monotonic()
        with ExitStack() as stack:
            stack.enter_context(self._signals)
            stack.enter_context(self._ear)
            if self._keeper is not None:
                stack.enter_context(self._keeper)
            self._undertaker.start()
            self._turn()
            while not self._is_over():
                self._signals.wait(_TICK)
                self._turn()
            self._wait_for_the_undertaker()
        return self._exit_code

    def _turn(self) -> None:
        try:
            self._obey()
            for slot in self._slots:
                self._look_after(slot)
            self._errands.give_to_one_of(self._children())
            self._manager.beat()
            reap_the_adopted({child.pid for child in self._children()})
        except Exception:  # a bug in here must not leave the workers alone
            log.complain(logger, "A turn of the supervisor failed; going on.")

    def _is_over(self) -> bool:
        is_done = self._stopping is not None or all(slot.is_over for slot in self._slots)
        if self._children() or not is_done:
            return False
        self._alone_since = min(self._alone_since, clock.monotonic())
        # A store that is away must not keep what has to end.
        is_late = clock.monotonic() - self._alone_since > ALONE
        # One that was given up has had its time.
        is_late = is_late or self._stopping is Stop.STORE_AWAY
        return self._is_hurried or is_late or not (self._errands or self._undertaker.estates)

    def _obey(self) -> None:
        """Do what was asked for since the last turn, by signals, by the store or by the clock."""
        now = clock.monotonic()
        # Also when it waits for something else already, without a limit.
        if self._signals.stops and self._stopping in (None, Stop.RESTART, Stop.MAX_TIME):
            self._stop(Stop.SIGNAL, grace=self._settings.grace)
        if self._stopping is None:
            if self._ear.heard is not None:
                self._stop(self._ear.heard, grace=None)
            elif self._settings.max_time is not None and now - self._began >= self._settings.max_time:
                self._stop(Stop.MAX_TIME, grace=None)
        if not self._is_hurried and (self._signals.stops > 1 or now >= self._hurry_at):
            self._hurry()
        if now >= self._kill_at:
            for child in self._children():
                self._kill(child, Kill.STOP)
        if self._signals.is_paused != self._was_paused:
            self._was_paused = self._signals.is_paused
            logger.info("Workers pause until SIGCONT." if self._was_paused else "Workers go on.")
        for child in self._children():
            child.order(Order.PAUSE, wanted=self._was_paused)

    def _stop(self, reason: Stop, *, grace: float | None) -> None:
        at_work, self._stopping = sum(len(child.at_work) for child in self._children()), reason
        self._hurry_at = float("inf") if grace is None else clock.monotonic() + grace
        self._manager.stopping()
        for child in self._children():
            # Also in writing, for a job may have shut out the signal, and nobody is to take another one after it.
            child.order(Order.RESTART, wanted=reason is Stop.RESTART)
            child.order(Order.TIME_IS_UP, wanted=reason is Stop.MAX_TIME)
            child.order(Order.LEAVE)
            child.terminate()
        if at_work and grace != 0:
            by_signal = reason is Stop.SIGNAL
            why = "" if by_signal else reason.value
            log.note(logger, logging.INFO, waiting_for(at_work, grace=grace, why=why, again=by_signal))

    def _hurry(self) -> None:
        self._is_hurried = True
        self._kill_at = clock.monotonic() + _HURRY
        for child in self._children():
            child.order(Order.HURRY)
            child.terminate()

    def _look_after(self, slot: Slot) -> None:
        if slot.child is not None:
            self._watch(slot, slot.child)
        # In the same turn, for whoever waits for the dead one's job waits for this.
        if slot.child is None:
            self._start_if_due(slot)

    def _watch(self, slot: Slot, child: Child) -> None:
        ended = child.ended()
        # Also if it has come so far and died since the last look.
        if child.has_been_ready:
            self._is_up()
        if ended is not None:
            slot.child = None
            self._bury(slot, child, ended)
            return
        if not child.has_been_ready and clock.monotonic() - child.began >= self._rules.readiness:
            self._kill(child, Kill.NOT_READY)
        for view in child.views():
            why = self._why_end(child, view)
            if why is not None:
                self._kill(child, why)

    def _why_end(self, child: Child, view: View) -> Kill | None:
        held = view.under_way
        seen = Watched(
            view,
            now=clock.monotonic(),
            lease_began=child.lease_began(view),
            unchanged=child.unchanged(view),
            is_lost=held is not None and child.has_lost(held),
            is_frozen=child.is_frozen,
        )
        return must_end(seen, self._rules)

    def _kill(self, child: Child, why: Kill) -> None:
        if child.why_killed is None:
            logger.warning("Worker %d (pid %d) is ended: %s%s.", child.slot, child.pid, why.value, child.running)
        child.kill(why)

    def _is_up(self) -> None:
        self._failed_starts = 0
        if not self._has_been_ready:
            self._has_been_ready = True
            self._manager.ready()

    def _start_if_due(self, slot: Slot) -> None:
        is_for_errands = bool(self._errands) and not self._is_hurried and (self._stopping is not None or slot.is_over)
        if not is_for_errands and (self._stopping is not None or slot.is_over):
            return
        # The first process alone: what goes wrong at the start is said once.
        if clock.monotonic() < slot.not_before or (slot.number > 1 and not self._has_been_ready):
            return
        self._start(slot)
        if is_for_errands and slot.child is not None:
            slot.child.order(Order.LEAVE)

    def _start(self, slot: Slot) -> None:
        try:
            slot.child = Child.start(slot.number, self._settings.command, lanes=self._settings.threads)
        except OSError as error:  # no memory, no process, no file left: that may pass
            logger.warning("A worker cannot be started, trying again: %s", error)
            slot.follow(Next.LATER, clock.monotonic())
        else:
            # Before it can have looked for them, so that nothing is left undone if there is no other work.
            self._errands.give(slot.child)

    def _bury(self, slot: Slot, child: Child, ended: Ended) -> None:
        """Settle what the process held, and see what follows."""
        now, lanes, why = clock.monotonic(), tuple(child.views()), child.why_killed
        late = frozenset(view.number for view in lanes if why is Kill.TIMEOUT and timed_out(view, self._rules, now=now))
        estate = Estate(lanes, self._cause(child, ended), why is not None, why is Kill.LEASE, late, died=now)
        self._undertaker.settle(estate)
        self._errands.add(*child.errands)
        stop = None if why is not None else child.stop
        lived, had_work = now - child.began, not estate.is_empty or why is not None
        # A stop may meet a process that is still too young to hear it politely, or does nothing any more.
        is_expected = ended.code in _POLITE and (not child.has_been_ready or estate.is_empty)
        if stop is None and why is None and not is_expected:
            logger.warning("Worker %d (pid %d) %s%s.", slot.number, child.pid, estate.cause, child.running)
        if not child.has_been_ready and ended.code not in _POLITE:
            self._failed_to_start(is_its_own_doing=ended.code >= 0)
        what = after(stop=stop, was_ready=child.has_been_ready, lived=lived, had_work=had_work)
        # One that has left its errands undone could not do them, and another might not either.
        slot.follow(Next.LATER if what is Next.AT_ONCE and child.errands else what, now)
        self._note_exit(stop, why)
        child.close()

    def _cause(self, child: Child, ended: Ended) -> str:
        if child.why_killed is not None:
            return f"was ended, for {child.why_killed.value}"
        if ended.code == -signal.SIGKILL and self._memory.has_struck():
            return f"{ended}, which the kernel does when memory runs out"
        return str(ended)

    def _failed_to_start(self, *, is_its_own_doing: bool) -> None:
        """Give up if that will not change: whatever has killed a process may let the next one live."""
        self._failed_starts += 1
        is_hopeless = is_its_own_doing and not self._has_been_ready
        if self._stopping is None and (is_hopeless or self._failed_starts >= _MOST_FAILED_STARTS):
            times = "" if self._failed_starts == 1 else f" {self._failed_starts} times in a row"
            logger.error("A worker could not start%s. What it said of that is above.", times)
            self._exit_code = self._exit_code or 1
            self._stop(Stop.SIGNAL, grace=self._settings.grace)

    def _note_exit(self, stop: Stop | None, why: Kill | None) -> None:
        if stop is Stop.STORE_AWAY:
            self._exit_code = stop.exit_code
            if self._stopping is None:
                self._stop(stop, grace=self._settings.grace)
        elif self._stopping is not None and (stop is Stop.INTERRUPTED or why is Kill.STOP):
            self._exit_code = self._exit_code or Stop.INTERRUPTED.exit_code

    def _children(self) -> list[Child]:
        return [slot.child for slot in self._slots if slot.child is not None]

    def _holders(self) -> list[Holder]:
        """Whose leases are to live on. A process that was stopped is not to keep its jobs for ever."""
        return [*(child for child in self._children() if not child.is_frozen), *self._undertaker.estates]

    def _wait_for_the_undertaker(self) -> None:
        # Only after a hurried end has the store not been waited for already.
        is_due = self._is_hurried and self._stopping is not Stop.STORE_AWAY
        pause(_LAST_PATIENCE if is_due else _LAST_TRY, until=lambda: not self._undertaker.estates)
        if self._undertaker.estates:
            logger.error("What dead workers held could not be settled; it is left to its leases.")
            self._exit_code = self._exit_code or 1
            self._undertaker.give_up()
        pause(_LAST_WORDS, until=lambda: not self._undertaker.is_telling)
        if self._errands:
            logger.warning("failed() of %d jobs was not called.", len(self._errands))
