"""The worker: takes jobs from a driver, one after the other, until there is a reason to stop."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence

from .. import clock, log
from ..driver import Driver
from ..envelope import Ack, Popped
from ..errors import ConnectionLost, StoreRefused
from ..events import Events, WorkerEvents
from ..executor import Executor
from ..outcome import Interrupted, TimedOut
from ..slate import State
from .alarm import Alarm, Cutter
from .carrier import Brought, Carrier, Wish
from .errands import Errands
from .forks import ending_forks
from .hand import Hand
from .handlers import Handlers
from .hooks import Hooks
from .means import MOST
from .pause import Outage, pause
from .post import Post
from .processor import Delivery, Processor
from .renewal import Renewal
from .settings import Stop, WorkerSettings
from .settler import Settler
from .telling import Teller

logger = logging.getLogger(__name__)

# A driver that says "now" and then has nothing is asked again no sooner than this.
_SHORTEST_WAIT = 0.005


class Worker:
    """Runs jobs in the calling thread.

    What ended well is settled together with the next pop, everything else at once. In the main thread it obeys
    SIGTERM, SIGINT and SIGQUIT and enforces time limits. A store that is away never ends it.
    """

    def __init__(
        self,
        driver: Driver,
        executor: Executor,
        *,
        events: Events,
        settings: WorkerSettings,
        jitter: Callable[[], float] = random.random,
        post: Post | None = None,
        alarm: Cutter | None = None,
        carrier: Carrier | None = None,
    ) -> None:
        self._driver = driver
        self._events = events
        self._settings = settings
        self._post = Post() if post is None else post
        self._lane = self._post.lane
        self._told = WorkerEvents(events.app, events.connection)
        self._alarm = Alarm() if alarm is None else alarm
        self._handlers = Handlers(self._hear, self._alarm.interrupt, self._post.is_hurried)
        timer = ending_forks(self._alarm)
        self._renewal = Renewal(
            driver,
            is_wanted=settings.renew,
            retry_after=settings.retry_after,
            is_watched=self._lane.is_watched,
            renewed=lambda: self._lane.renewed,
            note=self._lane.renewed_here,
        )
        self._processor = Processor(
            driver,
            executor,
            lane=self._lane,
            defaults=settings.defaults,
            timer=timer,
            is_stopping=lambda: self._is_stopping,
            jitter=jitter,
        )
        hooks = Hooks(driver, executor, timer=timer, defaults=settings.defaults, lane=self._lane)
        self._errands = Errands(self._post, hooks)
        self._outage = Outage()
        self._settler = Settler(
            driver,
            self._lane,
            Teller(events, hooks.call),
            self._outage,
            is_hurried=lambda: self._alarm.is_interrupted,
        )
        # Alone, nobody would know what of several it had finished when it died.
        self._most = min(MOST, settings.prefetch or MOST) if self._lane.is_watched and not settings.once else 1
        # Nor may what is taken alone be taken along with what others take.
        is_shared = carrier is not None and self._most > 1
        self._carrier = carrier if carrier is not None and is_shared else Carrier(driver, settings.queues)
        self._has_failed = False
        self._hand = Hand(driver, self._lane, self._settler, let_go=self._let_go)
        self._is_stopping = False
        self._is_idle = False
        self._has_looked = False
        self._was_cut_short = False
        self._has_timed_out = False
        self._jobs = 0
        self._began = 0.0

    @property
    def jobs(self) -> int:
        """How many jobs it has run."""
        return self._jobs

    def stop(self) -> None:
        """Make the worker end after its current job. Safe to call from any thread and any signal handler."""
        self._is_stopping = True

    def _hear(self) -> None:
        self.stop()
        self._post.hear()

    def hurry(self) -> None:
        """Cut short what runs, and end. Called in the main thread only."""
        self._is_stopping = True
        self._alarm.interrupt()

    def go_on_alone(self) -> None:
        """Renew its leases itself from now on, for its supervisor is gone."""
        self._renewal.go_on_alone()

    def run(self) -> Stop:
        """Take jobs until there is a reason to stop, and return it. A worker runs once."""
        self._began = clock.monotonic()
        with self._alarm, self._renewal, self._handlers:
            self._told.started(self._settings.queues)
            while (reason := self._reason_to_stop()) is None:
                self._turn()
            if reason is Stop.STORE_AWAY:
                logger.error("Giving up: the store has been away for %.1f s.", self._outage.seconds)
            self._hand.end()
            self._settle_the_rest()
            self._told.stopping(self._settings.queues, reason=reason.value)
            if not self._alarm.is_interrupted:
                self._errands.run_the_last()
        return Stop.INTERRUPTED if self._was_cut_short or self._settler.was_cut_short else reason

    def _reason_to_stop(self) -> Stop | None:
        settings = self._settings
        if self._is_stopping:
            return self._post.why_told()
        if settings.max_jobs is not None and self._jobs >= settings.max_jobs:
            return Stop.MAX_JOBS
        if settings.max_time is not None and self._age() >= settings.max_time:
            return Stop.MAX_TIME
        if settings.recycle_after is not None and self._jobs >= settings.recycle_after:
            return Stop.RECYCLED
        if self._has_timed_out and self._lane.is_watched:
            # What the job was torn out of may be broken: a pool, a lock, a half-sent request.
            return Stop.TIMED_OUT
        if (reason := self._post.why_leave()) is not None:
            return reason
        if self._has_given_up:
            return Stop.STORE_AWAY
        if settings.once and self._has_looked:
            return Stop.ONCE
        if settings.stop_when_empty and self._is_idle:
            return Stop.EMPTY
        return None

    @property
    def _has_given_up(self) -> bool:
        limit = self._settings.give_up_after
        return limit is not None and self._outage.seconds >= limit

    def _age(self) -> float:
        return clock.monotonic() - self._began

    def _turn(self) -> None:
        self._handlers.insist()
        self._alarm.insist()
        try:
            # Before whatever may take long: a pause, or a `failed()`.
            self._hand.recover()
            if self._post.errands:
                self._settler.settle()
            self._errands.run()
            allowed = 0 if self._post.is_held_back() else self._post.allowance.take(self._wanted())
            if not allowed:
                self._hold_back()
                return
            brought = self._next(allowed)
            for reclaimed in brought.popped.reclaimed:
                self._events.lease_expired(reclaimed)
            if brought.popped.reservations:
                self._work_through()
            elif not brought.was_passed_by:
                self._rest(brought.popped)
        except (ConnectionLost, StoreRefused) as error:
            self._outage.has(error)
            pause(self._outage.next_pause(), until=lambda: self._is_stopping or self._has_given_up)
        except Exception:  # a bug in a driver or in here must not take down what may work at the next turn
            log.complain(logger, "A turn of the worker failed; going on.")
            pause(self._outage.next_pause(), until=lambda: self._is_stopping)
        finally:
            self._hand.drop()

    def _wanted(self) -> int:
        """How many jobs it may still take at a time."""
        limits = (self._settings.max_jobs, self._settings.recycle_after)
        return min([self._most, *(limit - self._jobs for limit in limits if limit is not None)])

    def _next(self, allowed: int) -> Brought:
        """Settle what is finished and take what is next."""
        taken, asked = 0, clock.monotonic()
        wish = Wish(self._settler.settlements, allowed, self._lane.asking, alone=self._has_failed)
        try:
            brought = self._ask(wish)
            received, reservations = clock.monotonic(), brought.popped.reservations
            taken = len(reservations)
            self._lane.answered(wish.token, reservations)
        finally:
            self._post.allowance.give_back(allowed - taken)
        self._outage.is_over()
        self._has_looked = True
        deliveries = [
            Delivery(lease, received, position)
            for position, lease in enumerate(self._renewal.hold(reservations, asked=asked))
        ]
        self._hand.hold(wish.token, deliveries, others=brought.others)
        self._settler.has_settled(brought.settled, is_noted=True)
        return brought

    def _ask(self, wish: Wish) -> Brought:
        self._has_failed = True
        try:
            brought = self._carrier.exchange(wish)
        except Exception as error:  # whatever it was, what the pop may have reserved must not wait for its lease
            if not isinstance(error, StoreRefused):
                self._hand.lose(wish.token)
            self._settler.give_up_the_overdue()
            raise
        self._has_failed = False
        return brought

    def _hold_back(self) -> None:
        """Take no job until that is over, for a moment at most."""
        self._settler.settle()
        pause(self._settings.sleep, until=lambda: self._reason_to_stop() is not None or not self._is_held_back())

    def _is_held_back(self) -> bool:
        return self._post.is_held_back() or self._post.allowance.is_spent

    def _work_through(self) -> None:
        """Run what was taken, for as long as there is no reason to take no more."""
        self._is_idle = False
        before = self._jobs
        while (delivery := self._hand.next(is_over=lambda: self._is_over(self._jobs > before))) is not None:
            self._work(delivery)

    def _is_over(self, has_worked: bool) -> bool:
        # Told to stop while the store was asked: nothing has started, so all goes back uncharged.
        return self._is_stopping or (has_worked and (self._reason_to_stop() is not None or self._post.is_held_back()))

    def _work(self, delivery: Delivery) -> None:
        self._lane.enter(delivery.position)
        try:
            verdict = self._processor.judge(delivery)
        finally:
            # Also after a bug: a lease that nobody lets go of would keep its job from everybody.
            self._renewal.let_go(delivery.lease)
            self._lane.leave()
            self._hand.has_run()
        self._settler.tell_of_those_aside()
        attempt = verdict.attempt
        if isinstance(verdict.settlement, Ack):
            self._lane.end(delivery.position, State.SKIPPED if verdict.settlement.skipped else State.DONE)
        self._jobs += 1
        self._was_cut_short |= isinstance(attempt.outcome, Interrupted)
        self._has_timed_out |= isinstance(attempt.outcome, TimedOut)
        if attempt.job is not None and attempt.options.prefetch != 1:
            # Receivers take their time between two jobs, and what is taken next waits for them.
            self._carrier.means.note(delivery.reservation.envelope.name, attempt.seconds + self._settler.telling)
        self._settler.add(verdict)
        if not verdict.is_done:
            self._settler.settle()

    def _let_go(self, deliveries: Sequence[Delivery]) -> None:
        """Others may have these."""
        for delivery in deliveries:
            self._renewal.let_go(delivery.lease)
        self._post.allowance.give_back(len(deliveries))

    def _rest(self, popped: Popped) -> None:
        """Wait until there may be work, the next job falls due, or it is time to stop."""
        if not self._is_idle:
            self._is_idle = True
            self._told.idle(self._settings.queues)
        if self._reason_to_stop() is not None:
            return
        wait = self._settings.sleep
        if popped.next_due is not None:
            wait = min(wait, max(_SHORTEST_WAIT, popped.next_due - popped.now))
        if self._settings.max_time is not None:
            wait = min(wait, max(0.0, self._settings.max_time - self._age()))
        self._carrier.wait(timeout=wait, stopping=self._is_wanted_elsewhere)

    def _is_wanted_elsewhere(self) -> bool:
        """Whether waiting for work is over, for something else is to be seen to."""
        post = self._post
        return self._is_stopping or bool(post.errands) or post.is_held_back() or post.why_leave() is not None

    def _settle_the_rest(self) -> None:
        self._settler.settle()
        try:
            self._hand.recover()
            if not self._settler.leaves_work:
                self._lane.clear()
        except (ConnectionLost, StoreRefused) as error:
            logger.warning("What the last pop took is left to its lease: %s", error)
        except Exception:  # the lease brings it back a little later
            log.complain(logger, "What the last pop took could not be put back.")
