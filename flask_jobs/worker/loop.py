"""The worker: takes one job after the other from a driver until there is a reason to stop."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence

from .. import clock, log
from ..driver import Driver
from ..envelope import Ack, Exchange, Popped, Room, Settled
from ..errors import ConnectionLost, StoreRefused
from ..events import Events, WorkerEvents
from ..executor import Executor
from ..ids import new_id
from ..outcome import Interrupted, TimedOut
from ..slate import State
from .alarm import Alarm, Cutter
from .forks import ending_forks
from .handlers import Handlers
from .hooks import Hooks
from .pause import Outage, pause
from .post import Post
from .processor import Delivery, Processor, Verdict
from .renewal import Renewal
from .settings import Stop, WorkerSettings
from .telling import Teller

logger = logging.getLogger(__name__)

_ROOM = Room(limit=1)

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
    ) -> None:
        self._driver = driver
        self._events = events
        self._settings = settings
        self._post = Post() if post is None else post
        self._lane = self._post.lane
        self._told = WorkerEvents(events.app, events.connection)
        self._alarm = Alarm() if alarm is None else alarm
        self._handlers = Handlers(self.stop, self._alarm.interrupt, self._post.is_hurried)
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
        self._hooks = Hooks(driver, executor, timer=timer, defaults=settings.defaults, lane=self._lane)
        self._teller = Teller(events, self._hooks.call)
        self._outage = Outage()
        self._finished: list[Verdict] = []
        self._lost_token: str | None = None
        self._is_stopping = False
        self._is_idle = False
        self._has_looked = False
        self._was_cut_short = False
        self._has_timed_out = False
        self._leaves_work = False
        self._jobs = 0
        self._began = 0.0

    @property
    def jobs(self) -> int:
        """How many jobs it has run."""
        return self._jobs

    def stop(self) -> None:
        """Make the worker end after its current job. Safe to call from any thread and any signal handler."""
        self._is_stopping = True

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
            self._told.stopping(self._settings.queues, reason=reason.value)
            self._settle_the_rest()
            self._run_last_errands()
        return Stop.INTERRUPTED if self._was_cut_short else reason

    def _reason_to_stop(self) -> Stop | None:
        settings = self._settings
        if self._is_stopping:
            return Stop.SIGNAL
        if settings.max_jobs is not None and self._jobs >= settings.max_jobs:
            return Stop.MAX_JOBS
        if settings.max_time is not None and self._age() >= settings.max_time:
            return Stop.MAX_TIME
        if settings.recycle_after is not None and self._jobs >= settings.recycle_after:
            return Stop.RECYCLED
        if self._has_timed_out and self._lane.is_watched:
            # What the job was torn out of may be broken: a pool, a lock, a half-sent request.
            return Stop.TIMED_OUT
        if (reason := self._why_leave()) is not None:
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
        try:
            self._run_errands()
            if self._is_held_back() or not self._post.allowance.take():
                self._hold_back()
                return
            self._work_on_next()
        except (ConnectionLost, StoreRefused) as error:
            self._outage.has(error)
            pause(self._outage.next_pause(), until=lambda: self._is_stopping or self._has_given_up)
        except Exception:  # a bug in a driver or in here must not take down what may work at the next turn
            log.complain(logger, "A turn of the worker failed; going on.")
            pause(self._outage.next_pause(), until=lambda: self._is_stopping)

    def _is_held_back(self) -> bool:
        return self._post.is_held_back() or self._post.allowance.is_spent

    def _work_on_next(self) -> None:
        """Take what is next and run it, at the expense of the allowance if there is something."""
        before = self._jobs
        try:
            popped, deliveries = self._next()
            for reclaimed in popped.reclaimed:
                self._events.lease_expired(reclaimed)
            for delivery in deliveries:
                self._work(delivery)
        finally:
            if self._jobs == before:
                self._post.allowance.give_back()
        if not deliveries:
            self._rest(popped)

    def _next(self) -> tuple[Popped, list[Delivery]]:
        """Settle what is finished and take what is next."""
        self._recover_what_was_lost()
        token, asked = new_id(), clock.monotonic()
        self._lane.asking(token)
        answer = self._ask(token)
        received = clock.monotonic()
        self._lane.answered(token, answer.popped.reservations)
        self._outage.is_over()
        self._has_looked = True
        deliveries = [
            Delivery(self._renewal.hold(reservation, asked=asked), received, position)
            for position, reservation in enumerate(answer.popped.reservations)
        ]
        self._tell(answer.settled, is_noted=True)
        if deliveries and (self._is_stopping or deliveries[0].lease.is_over):
            # Told to stop while the store was asked, or held up until others may have the jobs: nothing has started, so
            # all goes back uncharged.
            self._let_go(deliveries)
            self._lost_token, deliveries = token, []
        return answer.popped, deliveries

    def _ask(self, token: str) -> Exchange:
        queues = self._settings.queues
        try:
            if self._finished:
                return self._driver.exchange([verdict.settlement for verdict in self._finished], queues, token, _ROOM)
            return Exchange(Settled(), self._driver.pop(queues, token, _ROOM))
        except Exception as error:  # whatever it was, what the pop may have reserved must not wait for its lease
            if not isinstance(error, StoreRefused):
                self._lost_token = token
            self._give_up_the_overdue()
            raise

    def _recover_what_was_lost(self) -> None:
        if self._lost_token is not None:
            self._driver.recover(self._lost_token)
            self._lost_token = None

    def _run_errands(self) -> None:
        errands = self._post.errands
        while errands:
            self._lane.use()
            try:
                self._hooks.run_errand(errands[0])
            except (ConnectionLost, StoreRefused):
                raise
            except (
                Exception
            ):  # a record that cannot be read must not keep this worker, and each after it, from its jobs
                log.complain(logger, "failed() of job %s could not be called.", errands[0])
            finally:
                self._lane.leave()
            errands.popleft()
            self._post.errand_is_run()

    def _run_last_errands(self) -> None:
        try:
            if not self._alarm.is_interrupted:
                self._run_errands()
        except (ConnectionLost, StoreRefused) as error:
            logger.warning("An errand is left to another worker: %s", error)

    def _hold_back(self) -> None:
        """Take no job until that is over, for a moment at most."""
        self._settle()
        over = clock.monotonic() + self._settings.sleep
        pause(over - clock.monotonic(), until=lambda: self._reason_to_stop() is not None or not self._is_held_back())

    def _work(self, delivery: Delivery) -> None:
        self._is_idle = False
        self._lane.enter(delivery.position)
        try:
            verdict = self._processor.judge(delivery)
        finally:
            # Also after a bug: a lease that nobody lets go of would keep its job from everybody.
            self._let_go([delivery])
            self._lane.leave()
        if isinstance(verdict.settlement, Ack):
            self._lane.end(delivery.position, State.SKIPPED if verdict.settlement.skipped else State.DONE)
        self._jobs += 1
        self._was_cut_short |= isinstance(verdict.attempt.outcome, Interrupted)
        self._has_timed_out |= isinstance(verdict.attempt.outcome, TimedOut)
        self._finished.append(verdict)
        if not verdict.is_done:
            self._settle()

    def _let_go(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self._renewal.let_go(delivery.lease)

    def _settle(self) -> None:
        """Settle what is finished now, trying again while its lease lives."""
        while self._finished:
            try:
                settled = self._driver.settle([verdict.settlement for verdict in self._finished])
            except Exception as error:  # its outcome is known only here, so it is kept whatever went wrong
                self._note_failure(error)
                self._give_up_the_overdue()
                if self._finished:
                    pause(self._outage.next_pause(), until=lambda: self._alarm.is_interrupted)
            else:
                self._outage.is_over()
                self._tell(settled)

    def _note_failure(self, error: Exception) -> None:
        if isinstance(error, ConnectionLost | StoreRefused):
            self._outage.has(error)
        else:
            log.complain(logger, "Settling failed; trying again.")

    def _give_up_the_overdue(self) -> None:
        """Stop trying to settle what somebody else may hold by now, and all if the worker must go at once."""
        kept = []
        for verdict in self._finished:
            if not verdict.delivery.lease.is_over and not self._alarm.is_interrupted:
                kept.append(verdict)
                continue
            self._was_cut_short |= self._alarm.is_interrupted
            if self._lane.is_watched and not verdict.delivery.lease.is_over:
                self._leaves_work = True  # for the supervisor, which has more time to settle it
                continue
            self._lane.end(verdict.delivery.position, State.SETTLED)
            reason = "the store was away as long as the lease lived"
            self._teller.tell_lost(verdict.attempt, verdict.settlement, reason, known=False)
        self._finished = kept

    def _tell(self, settled: Settled, *, is_noted: bool = False) -> None:
        """Tell of what was settled, now that the store has answered. `is_noted`: the lane shows it already."""
        finished, self._finished = self._finished, []
        if not finished:
            return
        self._lane.use()
        if not is_noted:
            for verdict in finished:
                self._lane.end(verdict.delivery.position, State.SETTLED)
        try:
            self._teller.tell_all([(verdict.attempt, verdict.settlement) for verdict in finished], settled)
        finally:
            self._lane.leave()

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
        self._driver.wait(self._settings.queues, timeout=wait, stopping=self._is_wanted_elsewhere)

    def _is_wanted_elsewhere(self) -> bool:
        """Whether waiting for work is over, for something else is to be seen to."""
        post = self._post
        return self._is_stopping or bool(post.errands) or post.is_held_back() or self._why_leave() is not None

    def _why_leave(self) -> Stop | None:
        reason = self._post.why_leave()
        # An application that is larger than its limit from the start would otherwise never run a job.
        return None if reason is Stop.MEMORY and not self._jobs else reason

    def _settle_the_rest(self) -> None:
        self._settle()
        try:
            self._recover_what_was_lost()
            if not self._leaves_work:
                self._lane.clear()
        except (ConnectionLost, StoreRefused) as error:
            logger.warning("What the last pop took is left to its lease: %s", error)
        except Exception:  # the lease brings it back a little later
            log.complain(logger, "What the last pop took could not be put back.")
