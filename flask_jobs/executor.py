"""One attempt, from the stored envelope to what happened. The worker, `sync` and the fake all run jobs through it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from . import clock, log, policy
from .control import Guards, NoGuards
from .coroutines import finish
from .driver import ContextFactory
from .envelope import Envelope, Hook, Progress, Reservation
from .errors import (
    ConfigurationError,
    ConnectionLost,
    MalformedEnvelope,
    ModelNotFound,
    NewerVersion,
    StoreRefused,
    UnknownJob,
    UnrebuildableJob,
)
from .events import Events, about
from .job import Job
from .options import JobOptions, Resolver, WorkerDefaults
from .outcome import Hopeless, Interrupted, Newer, Outcome, Raised, Skipped, Unknown
from .pipeline import GRACE, Gates, Passage, Timer, Witness, untimed

if TYPE_CHECKING:
    from .batches import Batch

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Attempt:
    """What came of one delivery. `job` is None when it could not be rebuilt; `seconds` is all the time it took.

    `undo` is to be called unless the job is put back: what it has booked for later is no use then.
    """

    outcome: Outcome
    options: JobOptions
    job: Job | None
    seconds: float
    undo: tuple[Callable[[], object], ...] = ()

    def end(self) -> None:
        """Call `undo`. Never raises: what cannot be undone ends by itself."""
        for call in self.undo:
            try:
                call()
            except Exception:  # a store that is away, or whatever a middleware of others does
                log.complain(logger, "What a job had booked could not be given back.", level=logging.WARNING)


class Executor:
    """Runs attempts, each in an app context and a `contextvars.Context` of its own.

    `decode` rebuilds a job with its models, `context` makes an app context, `cleanup` removes the sessions that
    the attempt has used, `find_batch` gives a job its batch, `guards` is what middleware finds of the app.
    """

    def __init__(
        self,
        *,
        decode: Callable[[Envelope], Job],
        context: ContextFactory,
        cleanup: Callable[[], None],
        events: Events,
        find_batch: Callable[[str | None], Batch | None] = lambda batch_id: None,
        guards: Guards | None = None,
    ) -> None:
        self._find_batch = find_batch
        self._decode = decode
        self._context = context
        self._cleanup = cleanup
        self._events = events
        self._guards = NoGuards() if guards is None else guards
        self._resolve = Resolver()

    def run(
        self,
        reservation: Reservation,
        *,
        defaults: WorkerDefaults,
        timer: Timer = untimed,
        is_stopping: Callable[[], bool] = lambda: False,
        report: Callable[[Progress], None] = lambda progress: None,
        now: float | None = None,
        gates: Gates | None = None,
        witness: Witness | None = None,
    ) -> Attempt:
        """Run the job once and say what happened; the app context is torn down before this returns.

        Never raises for what the job does: `SystemExit` and `KeyboardInterrupt` out of a job are errors of the
        job, but for a `KeyboardInterrupt` while the worker stops, which interrupts it. A caller on a terminal may
        raise such an error again. `now` is the store's time (that of the reservation if it is not given), `gates` what
        a job with ties passes on its way to its body, `witness` who is told how far it comes.
        """
        began = clock.monotonic()
        run = Passage(reservation, timer, is_stopping, report, self._guards, self._find_batch, gates, witness)
        present = reservation.now if now is None else now
        try:
            attempt = partial(self._attempt, run, defaults, present, gates)
            Context().run(self._within_app, reservation, attempt, run.finish_middleware)
        except BaseException as error:  # what comes from making the app context is an error of this attempt, too
            if run.outcome is not None:  # then it is an interrupt from the keyboard amid the teardown
                raise
            run.outcome = Raised(error)
        options = run.options or self._resolve(None, defaults)
        assert run.outcome is not None
        return Attempt(run.outcome, options, run.job, clock.monotonic() - began, run.to_undo())

    def run_hook(
        self,
        reservation: Reservation,
        error: BaseException,
        *,
        timer: Timer = untimed,
        limit: Callable[[Job], float] = lambda job: 0,
    ) -> Hook:
        """Rebuild the job in a fresh context, call its `failed(error)`, and say what became of it. Never raises.

        `limit` is asked how many seconds the job may take for it (0: without limit), right before.
        """
        answer = [Hook.RAISED]

        def call() -> None:
            answer[0] = self._tell_job(reservation, error, timer, limit)

        _quietly(Context().run, "failed() of a job", reservation, self._within_app, reservation, call)
        return answer[0]

    def _within_app(
        self,
        reservation: Reservation,
        call: Callable[[], BaseException | None],
        finish: Callable[[], bool] = lambda: False,
    ) -> None:
        """Make the call in a fresh app context, remove its sessions, and `finish`, which says whether it did anything.

        What the call returns is the error that teardown functions are told of.
        """
        context = self._context()
        context.__enter__()
        error: BaseException | None = None
        try:
            error = call()
        finally:
            # Before the context goes, so that a teardown that raises keeps no session alive.
            _quietly(self._cleanup, "Removing the sessions of a job", reservation)
            if finish():
                _quietly(self._cleanup, "Removing the sessions of a middleware", reservation)
            kind, trace = (None, None) if error is None else (type(error), error.__traceback__)
            _quietly(context.__exit__, "A teardown after a job", reservation, kind, error, trace)

    def _attempt(self, run: Passage, defaults: WorkerDefaults, now: float, gates: Gates | None) -> BaseException | None:
        try:
            excuse = None if gates is None else gates.excuse()
        except (ConnectionLost, StoreRefused) as error:
            run.outcome = Interrupted(f"it is unknown whether its batch was cancelled: {error}")
            return error
        if excuse is not None:
            run.outcome = Skipped(excuse)
            return None
        try:
            run.job = self._decode(run.reservation.envelope)
            run.options = self._resolve(run.job, defaults)
        except BaseException as error:  # the job's own code runs here, too: models, codecs, upcasters
            run.outcome = _not_rebuilt(error)
            return error
        misfit = _outlasts(run.options.timeout, defaults.lease, run.reservation)
        if misfit is not None:
            run.outcome = Hopeless(misfit)
            return misfit
        refused = policy.refuse(run.reservation, run.options, now)
        if refused is not None:
            run.outcome = refused
            return refused.error
        run.enter()
        self._events.processing(run.reservation, job=run.job)
        return run.through()

    def _tell_job(
        self, reservation: Reservation, error: BaseException, timer: Timer, limit: Callable[[Job], float]
    ) -> Hook:
        envelope, fields = reservation.envelope, about(reservation)
        try:
            job = self._decode(envelope)
        except Exception:  # a job that cannot be rebuilt has no hook; the signal tells
            log.complain(
                logger, "Job %s (%s) cannot be rebuilt for failed().", envelope.id, envelope.name, fields=fields
            )
            return Hook.NONE
        if type(job).failed is Job.failed:
            return Hook.NONE
        try:
            seconds = limit(job)
            timer(seconds, lambda: finish(job.failed(error), seconds), grace=GRACE)  # type: ignore[func-returns-value]
        except BaseException as raised:  # nothing that the hook does may change what is recorded, or end the worker
            message = "failed() of job %s (%s) raised."
            log.note(logger, logging.ERROR, message, envelope.id, envelope.name, fields=fields, error=raised)
            return Hook.RAISED
        return Hook.RAN


def _outlasts(timeout: float, lease: float | None, reservation: Reservation) -> ConfigurationError | None:
    if lease is None or 0 < timeout < lease:
        return None
    limit = f"timeout {timeout:g} s" if timeout else "no timeout"
    return ConfigurationError(
        f"{reservation.envelope.name} has {limit}, its lease is good for less than {lease:g} s, and renew is off: it "
        "could be started a second time beside itself. Lower the timeout, raise retry_after, or turn renew on, and "
        "then retry it."
    )


def _not_rebuilt(error: BaseException) -> Outcome:
    match error:
        case UnknownJob():
            return Unknown(error)
        case NewerVersion():
            return Newer(error)
        case ModelNotFound(quietly=True):
            return Skipped(f"a row that it refers to is gone: {error}")
        case MalformedEnvelope() | UnrebuildableJob() | ModelNotFound():
            return Hopeless(error)
        case _:
            return Raised(error)


def _quietly(call: Callable[..., object], what: str, reservation: Reservation, *args: object) -> None:
    """Make the call, and log what it raises; only an interrupt from the keyboard goes on."""
    try:
        call(*args)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # teardown functions are the application's own, and may even exit
        message, fields = f"{what} raised ([job:%s]).", about(reservation)
        log.note(logger, logging.ERROR, message, reservation.envelope.id, fields=fields, error=error)
