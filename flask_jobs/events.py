"""Every transition of a job, told once: a line in the log and a signal to whoever listens.

The signals are blinker's, sent by the app object itself. Receivers get ``job_id``, ``job_name``, ``queue``,
``attempt`` and ``connection``, and what else a transition has to say (``job``, ``error``, ``delay``, ``reason``,
``seconds``). A receiver or log handler that raises is logged and changes nothing. The values of a job's fields are
never logged.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from typing import Any

from blinker import NamedSignal, Namespace
from werkzeug.local import LocalProxy

from . import history, log
from .control import JobInterrupted, JobTimeout
from .envelope import Envelope, Reclaimed, Reservation
from .job import Job

logger = logging.getLogger(__name__)
lifecycle = logging.getLogger("flask_jobs.lifecycle")

# How many jobs that were discarded together one line names.
_LISTED = 20

_signals = Namespace()

job_dispatched = _signals.signal("job-dispatched", "A job is stored, and a worker may run it.")
job_discarded = _signals.signal(
    "job-discarded", "A job was dropped: with its transaction, or for one that holds its key."
)
job_processing = _signals.signal("job-processing", "An attempt begins; sent within its app context.")
job_processed = _signals.signal("job-processed", "A job is done with and has left the store.")
job_released = _signals.signal("job-released", "A job was put back.")
job_failed = _signals.signal("job-failed", "A job has failed for good, and its record is stored.")
job_timed_out = _signals.signal("job-timed-out", "An attempt reached its time limit; released or failed follows.")
job_interrupted = _signals.signal("job-interrupted", "A stop cut an attempt short; released or failed follows.")
settlement_lost = _signals.signal("settlement-lost", "A settlement came too late or never reached the store.")
lease_expired = _signals.signal("lease-expired", "A job was taken in again because its worker fell silent.")
worker_started = _signals.signal("worker-started", "A worker looks for jobs from now on.")
worker_stopping = _signals.signal("worker-stopping", "A worker takes no further job.")
worker_idle = _signals.signal("worker-idle", "A worker found nothing to do, after it had something.")
queue_paused = _signals.signal("queue-paused", "A queue gives out nothing for now.")
queue_resumed = _signals.signal("queue-resumed", "A queue gives out jobs again.")

OWN_SIGNALS = tuple(_signals.values())
"""All of the above."""


def about(delivery: Reservation) -> dict[str, object]:
    """The fields that each log record of a delivery carries."""
    envelope = delivery.envelope
    return {"job_id": envelope.id, "job_name": envelope.name, "queue": envelope.queue, "attempt": delivery.attempt}


class Events:
    """Tells what happens to the jobs of one connection. `app` is the sender, never a proxy for it."""

    def __init__(self, app: object, connection: str = "") -> None:
        self.app = app._get_current_object() if isinstance(app, LocalProxy) else app
        self.connection = connection

    def dispatched(self, envelope: Envelope, *, delay: float | None = None) -> None:
        """A job is stored; due in `delay` seconds, if that was asked for."""
        if not job_dispatched.receivers and not lifecycle.isEnabledFor(logging.INFO):
            return
        facts = {"delay": delay}
        if delay is None:
            self._tell(job_dispatched, logging.INFO, envelope, 0, facts, "dispatched")
        else:
            self._tell(job_dispatched, logging.INFO, envelope, 0, facts, "dispatched, due in %.12g s", round(delay, 2))

    def discarded(self, envelopes: Sequence[Envelope], *, reason: str) -> None:
        """Jobs that were never stored are dropped: one line for all, and a signal for each."""
        listed = ", ".join(f"{envelope.name} {envelope.id}" for envelope in envelopes[:_LISTED])
        more = f" and {len(envelopes) - _LISTED} more" if len(envelopes) > _LISTED else ""
        log.note(lifecycle, logging.WARNING, "discarded, because %s: %s%s", reason, listed, more, fields={})
        for envelope in envelopes:
            _send(job_discarded, self.app, {**self._fields(envelope, 0), "reason": reason})

    def dropped(self, envelope: Envelope, *, holder: str, answered: bool = False) -> None:
        """A job is not stored, for another one holds its unique key. `answered`: whoever dispatched it is told so."""
        reason = f"its unique key is held by the job {holder}"
        level = logging.INFO if answered else logging.WARNING
        self._tell(job_discarded, level, envelope, 0, {"reason": reason}, "discarded: %s", reason)

    def processing(self, delivery: Reservation, *, job: Job) -> None:
        """A reserved job is about to be run."""
        self._tell(job_processing, logging.DEBUG, delivery.envelope, delivery.attempt, {"job": job}, "running")

    def processed(self, delivery: Reservation, *, job: Job | None, seconds: float, reason: str | None = None) -> None:
        """A job has ended well; `reason` says why it ended quietly, if its body did not run to the end."""
        facts = {"job": job, "seconds": seconds, "reason": reason}
        envelope, attempt = delivery.envelope, delivery.attempt
        if reason is None:
            self._tell(job_processed, logging.INFO, envelope, attempt, facts, "processed in %.3f s", seconds)
        else:
            self._tell(job_processed, logging.INFO, envelope, attempt, facts, "ended quietly: %s", reason)

    def released(
        self,
        delivery: Reservation,
        *,
        job: Job | None,
        delay: float,
        reason: str,
        error: BaseException | None = None,
        is_expected: bool = True,
    ) -> None:
        """A job is back in its queue. Not expected is the death of its worker, or that this one could not build it."""
        level = logging.INFO if is_expected else logging.WARNING
        facts = {"job": job, "delay": delay, "reason": reason, "error": error}
        message = "released, due in %.12g s: %s"
        self._tell(job_released, level, delivery.envelope, delivery.attempt, facts, message, round(delay, 2), reason)

    def failed(self, delivery: Reservation, *, job: Job | None, error: BaseException) -> None:
        """A job has failed for good."""
        facts = {"job": job, "error": error}
        why = history.summary(error)
        self._tell(job_failed, logging.ERROR, delivery.envelope, delivery.attempt, facts, "failed: %s", why)

    def timed_out(self, delivery: Reservation, *, job: Job | None, seconds: float, error: BaseException) -> None:
        """An attempt reached its limit of so many seconds."""
        facts = {"job": job, "seconds": seconds, "error": error}
        message = "timed out: its limit is %g s"
        self._tell(job_timed_out, logging.WARNING, delivery.envelope, delivery.attempt, facts, message, seconds)

    def interrupted(self, delivery: Reservation, *, job: Job | None, reason: str) -> None:
        """An attempt was cut short."""
        facts = {"job": job, "reason": reason}
        self._tell(job_interrupted, logging.INFO, delivery.envelope, delivery.attempt, facts, "interrupted: %s", reason)

    def settlement_lost(self, delivery: Reservation, *, job: Job | None, reason: str, known: bool = True) -> None:
        """What became of an attempt is not recorded. `known`: the store itself has said so."""
        level = logging.WARNING if known else logging.ERROR
        facts = {"job": job, "reason": reason}
        self._tell(settlement_lost, level, delivery.envelope, delivery.attempt, facts, "settlement lost: %s", reason)

    def lease_expired(self, reclaimed: Reclaimed) -> None:
        """A job was taken in again; `charged` says whether its attempt stays counted."""
        facts = {"charged": reclaimed.charged}
        message = "reclaimed: its lease ran out, and its attempt is %s"
        fate = "spent" if reclaimed.charged else "given back"
        self._tell(lease_expired, logging.WARNING, reclaimed.envelope, reclaimed.attempt, facts, message, fate)

    def _fields(self, envelope: Envelope, attempt: int) -> dict[str, object]:
        return {
            "job_id": envelope.id,
            "job_name": envelope.name,
            "queue": envelope.queue,
            "attempt": attempt,
            "connection": self.connection,
        }

    def _tell(
        self,
        signal: NamedSignal,
        level: int,
        envelope: Envelope,
        attempt: int,
        facts: dict[str, Any],
        message: str,
        *args: object,
    ) -> None:
        is_logged = lifecycle.isEnabledFor(level)
        if not is_logged and not signal.receivers:
            return
        fields = self._fields(envelope, attempt)
        if is_logged:
            # Before its first attempt a job has none to speak of.
            place = f"queue {envelope.queue}, attempt {attempt}" if attempt else f"queue {envelope.queue}"
            line = f"[job:%s] %s (%s) {message}"
            names = (envelope.id, envelope.name, place)
            error = facts.get("error") if level >= logging.ERROR else None
            log.note(lifecycle, level, line, *names, *args, fields=fields, error=error)
        _send(signal, self.app, fields | facts)


class WorkerEvents:
    """Tells what happens to the workers and queues of one connection. `app` is the sender."""

    def __init__(self, app: object, connection: str = "") -> None:
        self.app = app._get_current_object() if isinstance(app, LocalProxy) else app
        self.connection = connection

    def started(self, queues: Sequence[str]) -> None:
        """A worker looks for jobs in these queues."""
        facts = {"queues": tuple(queues)}
        self._tell(worker_started, facts, "worker started on %s (queues %s)", self.connection, ",".join(queues))

    def idle(self, queues: Sequence[str]) -> None:
        """A worker has begun to be idle."""
        self._tell(worker_idle, {"queues": tuple(queues)}, None)

    def stopping(self, queues: Sequence[str], *, reason: str) -> None:
        """A worker takes no further job."""
        facts = {"queues": tuple(queues), "reason": reason}
        self._tell(worker_stopping, facts, "worker stops on %s: %s", self.connection, reason)

    def paused(self, queue: str, *, seconds: float | None = None) -> None:
        """A queue is held back, for so many seconds or until it is resumed."""
        span = "until it is resumed" if seconds is None else f"for {seconds:.12g} s"
        facts = {"queue": queue, "seconds": seconds}
        self._tell(queue_paused, facts, "queue %s on %s paused %s", queue, self.connection, span)

    def resumed(self, queue: str) -> None:
        """A queue gives out jobs again."""
        self._tell(queue_resumed, {"queue": queue}, "queue %s on %s resumed", queue, self.connection)

    def _tell(self, signal: NamedSignal, facts: dict[str, Any], message: str | None, *args: object) -> None:
        fields = {"connection": self.connection, **facts}
        if message is not None and lifecycle.isEnabledFor(logging.INFO):
            log.note(lifecycle, logging.INFO, message, *args, fields=fields)
        _send(signal, self.app, fields)


def _send(signal: NamedSignal, sender: object, facts: dict[str, Any]) -> None:
    if not signal.receivers or signal.is_muted:
        return
    for receiver in signal.receivers_for(sender):
        _call(receiver, signal, sender, facts)


def _call(receiver: Callable[..., Any], signal: NamedSignal, sender: object, facts: dict[str, Any]) -> None:
    try:
        answer = receiver(sender, **facts)
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError("The receiver is a coroutine function, and signals only call plain ones.")
    except (JobTimeout, JobInterrupted, KeyboardInterrupt):
        # A job that dispatches another runs receivers within its own time limit.
        raise
    except BaseException as error:  # receivers are the application's own, and may even exit or raise control flow
        log.note(logger, logging.ERROR, "A receiver of %s raised.", signal.name, error=error)
