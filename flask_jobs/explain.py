"""Why a job is where it is, in one sentence and a list: pure wording of what the store knows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from .envelope import Counters, Entry, Event, Hook
from .stored import FailedJob, State, StoredJob


@dataclass(frozen=True, slots=True)
class Pause:
    """The job's queue is paused, until this instant or until somebody resumes it."""

    until: float | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """One sentence that says why, and the unhappy transitions that led there, oldest first."""

    sentence: str
    transitions: tuple[str, ...]


def explain(job: StoredJob | FailedJob, *, now: float, pause: Pause | None = None) -> Explanation:
    """Say why the job waits, runs or has failed, as seen at `now`."""
    sentence = _failed(job, now) if isinstance(job, FailedJob) else _stored(job, now, pause)
    return Explanation(sentence, tuple(transition(entry, now) for entry in job.history))


def transition(entry: Entry, now: float) -> str:
    """One entry of a history in words."""
    said = f"{relative(entry.at, now)}: {_what_happened(entry)}"
    return said if entry.until is None else f"{said}; put off by {duration(entry.until - entry.at)}"


def relative(instant: float, now: float) -> str:
    """The instant as seen from `now`: "in 5 min", "2 h ago", "now"."""
    if abs(instant - now) < 1:
        return "now"
    return f"in {duration(instant - now)}" if instant > now else f"{duration(now - instant)} ago"


def duration(seconds: float) -> str:
    """A span of time in its nearest unit: "45 s", "5 min", "3 h", "12 d"."""
    seconds = max(seconds, 0.0)
    if round(seconds) < 100:
        return f"{round(seconds)} s"
    if round(seconds / 60) < 100:
        return f"{round(seconds / 60)} min"
    if round(seconds / 3600) < 48:
        return f"{round(seconds / 3600)} h"
    return f"{round(seconds / 86_400):,} d"


def _stored(job: StoredJob, now: float, pause: Pause | None) -> str:
    match job.state:
        case State.RESERVED:
            return _reserved(job, now)
        case State.READY:
            return _sentence(_origin(job, now), _waiting(job, pause, now), _deadline(job, now))
        case State.DELAYED:
            return _sentence(_origin(job, now), _delayed(job, pause, now), _deadline(job, now))
    assert_never(job.state)


def _reserved(job: StoredJob, now: float) -> str:
    attempt = f"attempt {job.counters.attempts}"
    if job.leased_until is None:
        return _sentence(f"{attempt} is running")
    if job.leased_until > now:
        lease = f"its worker holds the lease for another {duration(job.leased_until - now)}"
        return _sentence(f"{attempt} is running", lease)
    gone = f"its lease ran out {relative(job.leased_until, now)}, and the next worker that looks takes it over"
    return _sentence(f"{attempt} was with a worker that fell silent", gone)


def _origin(job: StoredJob, now: float) -> str:
    if job.history:
        return _what_happened(job.history[-1])
    if job.envelope.retried_from is not None:
        return f"retried {relative(job.pushed_at, now)}, as failed job {job.envelope.retried_from} before"
    return f"dispatched {relative(job.pushed_at, now)}"


def _waiting(job: StoredJob, pause: Pause | None, now: float) -> str:
    if pause is not None:
        return f"it waits because {_paused(job, pause, now)}"
    return f"it is due and waits for a free worker of queue {job.envelope.queue!r}"


def _delayed(job: StoredJob, pause: Pause | None, now: float) -> str:
    held = "" if pause is None else f", and {_paused(job, pause, now)}"
    if job.due is None or job.due <= now:
        return f"its delay is over and it waits for a free worker of queue {job.envelope.queue!r}{held}"
    reason = "waits for its next attempt" if job.history else "was delayed"
    return f"it {reason} and falls due {relative(job.due, now)}{held}"


def _paused(job: StoredJob, pause: Pause, now: float) -> str:
    end = "until it is resumed" if pause.until is None else f"for another {duration(pause.until - now)}"
    return f"queue {job.envelope.queue!r} is paused {end}"


def _deadline(job: StoredJob, now: float) -> str:
    # The first attempt may start whatever the deadline says.
    if job.retry_until is None or job.retry_until > now or not job.counters.attempts:
        return ""
    return f"its deadline passed {relative(job.retry_until, now)}, so it fails instead of running again"


def _failed(job: FailedJob, now: float) -> str:
    error = _one_line(f"{job.error.type.rpartition('.')[2]}: {job.error.message}")
    return _sentence(
        f"failed for good {relative(job.failed_at, now)} {_attempts(job.counters)} with {error.rstrip('.')}",
        _hook(job.hook),
    )


def _attempts(counters: Counters) -> str:
    if not counters.attempts:
        return "without having run"
    return "after 1 attempt" if counters.attempts == 1 else f"after {counters.attempts} attempts"


def _hook(hook: Hook) -> str:
    match hook:
        case Hook.PENDING:
            return "its failed() method has not run yet"
        case Hook.RAISED:
            return "its failed() method raised an error"
        case Hook.RAN | Hook.NONE:
            return ""
    assert_never(hook)


def _what_happened(entry: Entry) -> str:
    reason = _one_line(entry.reason).rstrip(".")
    said = _event(entry)
    return f"{said} ({reason})" if reason else said


def _event(entry: Entry) -> str:
    match entry.event:
        case Event.RELEASED:
            return f"attempt {entry.attempt} was put back"
        case Event.ERROR:
            return f"attempt {entry.attempt} raised an error"
        case Event.TIMED_OUT:
            return f"attempt {entry.attempt} ran into its timeout"
        case Event.LEASE_EXPIRED:
            return f"attempt {entry.attempt} was lost with its worker"
        case Event.INTERRUPTED:
            return f"attempt {entry.attempt} was cut short"
        case Event.WORKER_DIED:
            return f"the worker died amid attempt {entry.attempt}"
        case Event.UNKNOWN_JOB:
            return "a worker did not know the job's name"
        case Event.NEWER_VERSION:
            return "a worker's code was older than the job"
        case Event.RETRIED:
            return "it had failed and was retried"
    assert_never(entry.event)


def _sentence(*parts: str) -> str:
    said = "; ".join(part for part in parts if part)
    return f"{said[:1].upper()}{said[1:]}."


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else f"{line[:199]}…"
