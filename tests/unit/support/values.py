"""Values that tests start from."""

from __future__ import annotations

from typing import Any

from flask_jobs.envelope import Counters, Entry, Envelope, Event, Reservation
from flask_jobs.options import JobOptions

NOW = 1_700_000_000.0


def envelope(job_id: str = "0190", name: str = "demo", queue: str = "default") -> Envelope:
    return Envelope(id=job_id, name=name, queue=queue, body="{}.signature")


def reservation(
    *,
    name: str = "demo",
    attempts: int = 1,
    errors: int = 0,
    releases: int = 0,
    interruptions: int = 0,
    retry_until: float | None = None,
    history: tuple[Entry, ...] = (),
    now: float = NOW,
) -> Reservation:
    counters = Counters(attempts, errors, releases, interruptions)
    return Reservation(envelope(name=name), counters, "receipt", now, now, retry_until, history)


def options(**given: Any) -> JobOptions:
    """Options as a job that sets these would have them."""
    return JobOptions(sets_attempts="max_attempts" in given, **given)


def entries(event: Event, number: int) -> tuple[Entry, ...]:
    return tuple(Entry(event, NOW, 1, "as before") for _ in range(number))
