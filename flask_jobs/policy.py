"""What follows from an attempt: a pure function of the delivery, its outcome, the job's options and the time.

What is spent and what is given back: the attempt is written when the job is popped, so that no crash can hide it,
and given back when the body did not start (put back by a middleware, cut short by a stop, unknown to this worker).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from . import history
from .envelope import (
    NOW,
    Ack,
    After,
    Counters,
    Entry,
    ErrorRecord,
    Event,
    Fail,
    Release,
    Reservation,
    Settlement,
    When,
    instant,
)
from .errors import MaxAttemptsExceeded
from .options import JobOptions
from .outcome import (
    Died,
    Done,
    Hopeless,
    Interrupted,
    Newer,
    Outcome,
    Raised,
    Refused,
    Released,
    Skipped,
    TimedOut,
    Unknown,
)

FIRST_PAUSE = 10.0
"""Seconds before the second attempt, when the job says nothing else. It doubles with each further attempt."""

LONGEST_PAUSE = 600.0
"""The cap of the default backoff, in seconds."""

UNKNOWN_PAUSES = (1.0, 5.0, 30.0, 90.0)
"""Seconds that a job of an unknown name is put back for, time after time, before it fails: a rolling deploy."""

NEWER_PAUSES = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 600.0, 600.0, 600.0)
"""The same for a job stored by newer code than this worker's."""

_NOT_BUILT = {Event.UNKNOWN_JOB, Event.NEWER_VERSION}

# From here on the doubled pause is above the cap, and a larger power would only overflow.
_DOUBLINGS = 6


def default_backoff(attempt: int, jitter: float) -> float:
    """Seconds before the next attempt: 10, 20, 40, … up to 600, each times a share between a quarter and one.

    `jitter` from 0 to 1 picks the share, so that jobs that failed together do not come back together.
    """
    pause = min(LONGEST_PAUSE, FIRST_PAUSE * (1 << min(attempt - 1, _DOUBLINGS)))
    return pause * (0.25 + 0.75 * jitter)


def attempt_limit(reservation: Reservation, options: JobOptions) -> int:
    """How many times the body may start; 0 means no limit. A deadline replaces what the job did not set itself."""
    if reservation.retry_until is not None and not options.sets_attempts:
        return 0
    return options.max_attempts


def refuse(reservation: Reservation, options: JobOptions, now: float) -> Refused | None:
    """Why the body must not start again, or None if it may. `now` is the store's time."""
    limit, attempt = attempt_limit(reservation, options), reservation.attempt
    if limit and attempt > limit:
        started = _times(attempt - 1)
        return Refused(_spent(reservation, f"its body has started {started}, and max_attempts is {limit}"))
    if attempt > 1 and reservation.retry_until is not None and now > reservation.retry_until:
        return Refused(_spent(reservation, "the deadline of its retry_until passed before the next attempt"))
    return None


def decide(reservation: Reservation, outcome: Outcome, options: JobOptions, *, now: float, jitter: float) -> Settlement:
    """How to settle the delivery after this outcome. `now` is the store's time, `jitter` a number from 0 to 1."""
    match outcome:
        case Done():
            return Ack(reservation)
        case Skipped():
            return Ack(reservation, skipped=True)
    case = _Case(reservation, options, now, jitter)
    match outcome:
        case Raised(error):
            return _after_error(case, error, Event.ERROR, history.summary(error))
        case Released():
            return _after_release(case, outcome)
        case TimedOut(limit, error, ended):
            reason = f"reached its limit of {limit:g} s" + (", and its worker process was ended" if ended else "")
            if options.fail_on_timeout:
                return case.fail(error, case.counted(errors=1), Event.TIMED_OUT, reason)
            return _after_error(case, error, Event.TIMED_OUT, reason)
        case Interrupted(reason):
            return _after_interruption(case, reason)
        case Died(error):
            # No error of the job's own, so that it does not count as one of its max_exceptions.
            return _tried_again(case, error, case.counted(), Event.WORKER_DIED, str(error))
        case Hopeless(error):
            return case.fail(error, reservation.counters, Event.ERROR, history.summary(error))
        case Refused(error):
            record = replace(history.describe(error), causes=_causes(reservation))
            return Fail(reservation, record, case.counted(attempts=-1))
        case Unknown(error):
            return _for_another_worker(case, error, Event.UNKNOWN_JOB, UNKNOWN_PAUSES)
        case Newer(error):
            return _for_another_worker(case, error, Event.NEWER_VERSION, NEWER_PAUSES)
        case _:
            assert_never(outcome)


def failure(outcome: Outcome, record: ErrorRecord) -> BaseException:
    """The error that the hook and the signal of a failed job are given."""
    match outcome:
        case Raised(error) | TimedOut(error=error) | Hopeless(error) | Refused(error) | Unknown(error) | Newer(error):
            return error
        case Died(error):
            return error
        case _:
            return MaxAttemptsExceeded(record.message)


@dataclass(frozen=True, slots=True)
class _Case:
    """All that a decision looks at, and the settlements it can come to."""

    reservation: Reservation
    options: JobOptions
    now: float
    jitter: float

    def counted(self, *, attempts: int = 0, errors: int = 0, releases: int = 0, interruptions: int = 0) -> Counters:
        before = self.reservation.counters
        return Counters(
            attempts=before.attempts + attempts,
            errors=before.errors + errors,
            releases=before.releases + releases,
            interruptions=before.interruptions + interruptions,
        )

    def pause(self) -> float:
        attempt = self.reservation.attempt
        backoff = self.options.pinned(attempt).backoff
        if isinstance(backoff, tuple):
            return backoff[min(attempt, len(backoff)) - 1]
        return default_backoff(attempt, self.jitter)

    def is_too_late(self, delay: float) -> bool:
        deadline = self.reservation.retry_until
        return deadline is not None and self.now + delay > deadline

    def is_last(self) -> bool:
        limit = attempt_limit(self.reservation, self.options)
        return limit > 0 and self.reservation.attempt >= limit

    def entry(self, event: Event, reason: str, until: float | None = None) -> Entry:
        return Entry(event, self.now, self.reservation.attempt, history.storable(reason), until)

    def release(self, due: When, counters: Counters, event: Event, reason: str) -> Release:
        return Release(self.reservation, due, counters, self.entry(event, reason, instant(due, self.now)))

    def fail(self, error: BaseException, counters: Counters, event: Event, reason: str) -> Fail:
        return Fail(self.reservation, history.describe(error), counters, self.entry(event, reason))

    def give_up(self, why: str, counters: Counters, event: Event, reason: str) -> Fail:
        entry = self.entry(event, reason)
        record = history.describe(_spent(self.reservation, why))
        return Fail(self.reservation, replace(record, causes=_causes(self.reservation, entry)), counters, entry)


def _after_error(case: _Case, error: BaseException, event: Event, reason: str) -> Settlement:
    counters = case.counted(errors=1)
    most = case.options.max_exceptions
    if most is not None and counters.errors >= most:
        return case.fail(error, counters, event, reason)
    return _tried_again(case, error, counters, event, reason)


def _tried_again(case: _Case, error: BaseException, counters: Counters, event: Event, reason: str) -> Settlement:
    if case.is_last():
        return case.fail(error, counters, event, reason)
    pause = case.pause()
    if case.is_too_late(pause):
        return case.fail(error, counters, event, f"{reason} (the next attempt would start after the deadline)")
    return case.release(After(pause), counters, event, reason)


def _after_release(case: _Case, outcome: Released) -> Settlement:
    counters = _after_put_back(case, outcome)
    why = _why_not_put_back(case, outcome, counters)
    if why is not None:
        return case.give_up(why, counters, Event.RELEASED, outcome.reason)
    return case.release(After(outcome.delay), counters, Event.RELEASED, outcome.reason)


def _after_put_back(case: _Case, outcome: Released) -> Counters:
    if outcome.started:
        return case.counted()
    return case.counted(attempts=0 if outcome.spends else -1, releases=1)


def _why_not_put_back(case: _Case, outcome: Released, counters: Counters) -> str | None:
    most = case.options.max_releases
    if not outcome.started and most is not None and counters.releases > most:
        return f"it was put back {_times(counters.releases)} without its body having run, and max_releases is {most}"
    if (outcome.started or outcome.spends) and case.is_last():
        limit = attempt_limit(case.reservation, case.options)
        who = "it released itself" if outcome.started else "it was put back"
        return f"{who} in its last attempt, and max_attempts is {limit}"
    if case.is_too_late(outcome.delay):
        return "it was to be put back until after the deadline of its retry_until"
    return None


def _after_interruption(case: _Case, reason: str) -> Settlement:
    counters = case.counted(attempts=-1, interruptions=1)
    most = case.options.max_interruptions
    if most is not None and counters.interruptions > most:
        why = f"it was cut short {_times(counters.interruptions)}, and max_interruptions is {most}"
        return case.give_up(why, counters, Event.INTERRUPTED, reason)
    return case.release(NOW, counters, Event.INTERRUPTED, reason)


def _for_another_worker(case: _Case, error: BaseException, event: Event, pauses: tuple[float, ...]) -> Settlement:
    counters = case.counted(attempts=-1)
    reason = history.summary(error)
    waited = _waited(case.reservation, event)
    if waited >= len(pauses):
        return case.fail(error, counters, event, reason)
    return case.release(After(pauses[waited]), counters, event, reason)


def _waited(reservation: Reservation, event: Event) -> int:
    """How often it was put back for this since a worker could last build it, whatever other workers made of it."""
    count = 0
    for entry in reversed(reservation.history):
        if entry.event not in _NOT_BUILT:
            break
        count += entry.event is event
    return count


def _spent(reservation: Reservation, why: str) -> MaxAttemptsExceeded:
    message = f"{reservation.envelope.name} was given up: {why}."
    if reservation.history:
        message = f"{message} What came before: {_line(reservation.history[-1])}."
    return MaxAttemptsExceeded(message)


def _causes(reservation: Reservation, *last: Entry) -> tuple[str, ...]:
    return tuple(_line(entry) for entry in (*reservation.history, *last)[-history.CAUSES :])


def _line(entry: Entry) -> str:
    text = f"attempt {entry.attempt} {entry.event.value}"
    return f"{text}: {entry.reason}" if entry.reason else text


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
