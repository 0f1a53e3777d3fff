"""The way of a job through its middleware to its body, within its time limit."""

from __future__ import annotations

import contextlib
import inspect
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from . import clock, log
from .control import (
    DiscardJob,
    FailJob,
    Guards,
    JobContext,
    JobInterrupted,
    JobTimeout,
    ReleaseJob,
    running,
)
from .coroutines import drop, finish
from .envelope import Event, Progress, Reservation
from .errors import ConfigurationError
from .job import Job, Middleware, TaskJob
from .options import JobOptions
from .outcome import Done, Hopeless, Interrupted, Outcome, Raised, Released, Skipped, TimedOut

if TYPE_CHECKING:
    from .batches import Batch

logger = logging.getLogger(__name__)

# How much later than the event loop the timer speaks up: a coroutine is to be cancelled by its loop, and only one
# that does not give way is cut short from outside.
GRACE = 1.0

# `current_job.stopping` turns true when this share of the time limit is left, or this many seconds.
_NEAR_SHARE, _NEAR_SECONDS = 0.1, 5.0


class Timer(Protocol):
    """Calls the body and raises `JobTimeout` or `JobInterrupted` within it, and nowhere else."""

    def __call__(self, limit: float, body: Callable[[], None], *, grace: float = 0) -> None:
        """Let the body run for `limit` seconds (0: without limit) and `grace` more."""


def untimed(limit: float, body: Callable[[], None], *, grace: float = 0) -> None:
    """The timer of places that enforce no limit: it just calls the body."""
    body()


class Gates(Protocol):
    """What a job passes on its way to its body."""

    def excuse(self) -> str | None:
        """Why the job ends without having run, or None if it is to run."""

    def enter(self) -> None:
        """Let the body start; what this raises is an outcome of the attempt."""


class Witness:
    """Is told where an attempt stands, as it happens. This one forgets it."""

    needs_pause = False
    """Whether it is to know in advance what the pause after the attempt would be."""

    def run(self, options: JobOptions) -> None:
        """The job comes under its time limit. The options are pinned, if it needs the pause."""

    def start(self) -> None:
        """Its body is entered."""

    def leave(self) -> None:
        """It has left its middleware, and no limit holds any more."""

    def end(self, *, skipped: bool) -> None:
        """It is done, or has ended quietly: whatever comes now, it is not to run again."""


class Passage:
    """One attempt on its way through the middleware to the body."""

    def __init__(
        self,
        reservation: Reservation,
        timer: Timer,
        is_stopping: Callable[[], bool],
        report: Callable[[Progress], None],
        guards: Guards,
        batches: Callable[[str | None], Batch | None],
        gates: Gates | None = None,
        witness: Witness | None = None,
    ) -> None:
        self.reservation = reservation
        self.report = report
        self.guards = guards
        self.afterwards: list[Callable[[], object]] = []
        self.undo: list[Callable[[], object]] = []
        self.has_started = False
        self.job: Job | None = None
        self.options: JobOptions | None = None
        self.outcome: Outcome | None = None
        self._timer = timer
        self._is_stopping = is_stopping
        self._batches = batches
        self._gates = gates
        self._witness = Witness() if witness is None else witness
        self._ends = math.inf
        self._innermost = ""
        self._cut: JobTimeout | JobInterrupted | None = None

    def find_batch(self) -> Batch | None:
        """The batch that the job belongs to, if it does."""
        ties = self.reservation.envelope.ties
        return None if ties is None else self._batches(ties.batch)

    def is_near_its_end(self) -> bool:
        """Whether the worker is to stop, or the time limit is near."""
        if self._is_stopping():
            return True
        limit = self.options.timeout if self.options is not None else 0.0
        near = min(_NEAR_SHARE * limit, _NEAR_SECONDS)
        return clock.monotonic() > self._ends - near

    def enter(self) -> None:
        """Make the job known as `current_job`."""
        running.set(JobContext(self))

    def through(self) -> BaseException | None:
        """Run middleware and body under the timer, note the outcome, and return what came out of them."""
        assert self.job is not None
        assert self.options is not None
        options, limit = self.options, self.options.timeout
        grace = GRACE if limit and _is_coroutine(self.job) else 0
        error: BaseException | None = None
        try:
            if self._witness.needs_pause and callable(options.backoff):
                self._ask_for_the_pause(options)
            self._witness.run(self.options)
            if limit:
                self._ends = clock.monotonic() + limit
            self._timer(limit, self._pipeline, grace=grace)
        except BaseException as raised:  # SystemExit and control flow are outcomes as well
            error = raised
        self._witness.leave()
        # That the time was up is a fact, and no middleware can swallow it.
        error = self._cut or error
        self.outcome = self._returned() if error is None else self._ended_by(error)
        match self.outcome:
            case Done():  # before anything else can go wrong, or end the process
                self._witness.end(skipped=False)
            case Skipped():
                self._witness.end(skipped=True)
            case Raised() | TimedOut():
                self._ask_again(options)
        return error

    def _ask_for_the_pause(self, options: JobOptions) -> None:
        """Ask the job's own `backoff()` within the time limit of the job: it may hang, too."""

        def ask() -> None:
            self.options = options.pinned(self.reservation.attempt)

        if self.options is options:  # whatever comes of it, it is not asked where no limit holds
            self.options = replace(options, backoff=None)
        self._witness.run(self.options or options)
        self._timer(options.timeout, ask)

    def _ask_again(self, options: JobOptions) -> None:
        """Ask when it has failed: that may have changed the answer, and its attributes can still be loaded."""
        if not callable(options.backoff):
            return
        try:
            self._ask_for_the_pause(options)
        except KeyboardInterrupt:
            raise
        except BaseException:  # it was cut short, or does what only a body may
            envelope = self.reservation.envelope
            log.complain(logger, "backoff() of job %s (%s) gave no pause.", envelope.id, envelope.name)
        finally:
            self._witness.leave()

    def finish_middleware(self) -> bool:
        """Let the middleware finish its work; says whether there was any. Never raises an `Exception`.

        For when the sessions of the job are gone: what it has not committed may lock the very store that this is for.
        """
        has_work = bool(self.afterwards)
        while self.afterwards:
            call = self.afterwards.pop()
            try:
                call()
            except Exception:  # a store that is away, or a function of the application
                envelope = self.reservation.envelope
                message = "A middleware could not finish its work after job %s (%s)."
                log.complain(logger, message, envelope.id, envelope.name, level=logging.WARNING)
        return has_work

    def to_undo(self) -> tuple[Callable[[], object], ...]:
        """What to call if the job is not put back."""
        if self.has_started or not _may_have_booked(self.reservation):
            return tuple(self.undo)
        # It has not come as far as the limit that it had booked a turn of.
        return (*self.undo, self._give_back)

    def _give_back(self) -> None:
        with contextlib.suppress(ConfigurationError):  # without a store nothing was booked
            self.guards.guard(None).store.give_back(self.reservation.envelope.id)

    def _pipeline(self) -> None:
        job = self.job
        assert job is not None
        if type(job).middleware is Job.middleware:
            self._body()
        else:
            self._layer(tuple(job.middleware()), 0)

    def _layer(self, layers: Sequence[Middleware], place: int) -> None:
        if place == len(layers):
            self._body()
            return
        layer = layers[place]
        self._innermost = type(layer).__name__
        answer: object = layer.handle(self.job, lambda: self._layer(layers, place + 1))  # type: ignore[func-returns-value]
        if inspect.isawaitable(answer):
            drop(answer)
            raise TypeError(f"{type(layer).__name__}.handle() is a coroutine function: middleware is plain code.")

    def _body(self) -> None:
        assert self.job is not None
        if self.has_started:
            raise RuntimeError(f"{self._innermost} called call_next() again: the body starts once in an attempt.")
        if self._gates is not None:
            self._gates.enter()
        self.has_started = True
        self._witness.start()
        try:
            result: object = self.job.handle()
            if result is not None:
                finish(result, max(0.001, self._ends - clock.monotonic()))
        except (JobTimeout, JobInterrupted) as cut:
            self._cut = cut
            raise

    def _returned(self) -> Outcome:
        if self.has_started:
            return Done()
        return Skipped(f"{self._innermost} did not call call_next()")

    def _ended_by(self, error: BaseException) -> Outcome:
        match error:
            case ReleaseJob():
                spends = self.guards.releases_spend if error.spend_attempt is None else error.spend_attempt
                # Who makes way for a stop pays no more for it than who is cut short.
                return Released(error.delay, error.reason, self.has_started and not self._is_stopping(), spends)
            case DiscardJob():
                return Skipped(str(error) or "discarded by the job")
            case FailJob():
                cause = error.error
                return Hopeless(cause if cause.__traceback__ else cause.with_traceback(error.__traceback__))
            case JobTimeout():
                assert self.options is not None
                return TimedOut(self.options.timeout, error)
            case JobInterrupted():
                return Interrupted(str(error) or "the worker has to go")
            case KeyboardInterrupt() if self._is_stopping():
                return Interrupted("KeyboardInterrupt while the worker stops")
            case BaseExceptionGroup(exceptions=[only]) if _is_control(only):
                # A task group hands on in a group what one of its tasks has said.
                return self._ended_by(only)
            case _:
                return Raised(error)


def _may_have_booked(reservation: Reservation) -> bool:
    return any(entry.event is Event.RELEASED for entry in reservation.history)


def _is_control(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return len(error.exceptions) == 1 and _is_control(error.exceptions[0])
    return isinstance(error, ReleaseJob | DiscardJob | FailJob)


def _is_coroutine(job: Job) -> bool:
    function = type(job).function if isinstance(job, TaskJob) else type(job).handle
    code = getattr(function, "__code__", None)
    # What `inspect` looks at in the end, for a job cannot wait until it gets there.
    return inspect.iscoroutinefunction(function) if code is None else bool(code.co_flags & inspect.CO_COROUTINE)
