"""Rows of the tables, and the values of the port that are made of them."""

from __future__ import annotations

import json
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ... import history
from ...envelope import Counters, Entry, Envelope, ErrorRecord, Hook, Progress, Reservation
from ...stored import FailedJob, State, StoredJob
from ..transitions import storable
from .packing import load_ties
from .schema import COUNTERS, DELAYED, RESERVED, failed, jobs


class JobRow(NamedTuple):
    """One row of `flask_jobs`, in the order of `JOB_COLUMNS`."""

    seq: int
    state: int
    at: float
    alone: bool
    progress: str | None
    id: str
    name: str
    queue: str
    attempts: int
    errors: int
    releases: int
    interruptions: int
    pushed_at: float
    retry_until: float | None
    retried_from: str | None
    history: str | None
    ties: str | None
    body: str

    @property
    def envelope(self) -> Envelope:
        """The job itself."""
        # Spelled out, because this is done for each job that is popped.
        ties = None if self.ties is None else load_ties(self.ties, job_id=self.id)
        return Envelope(self.id, self.name, self.queue, self.body, self.retried_from, ties)

    @property
    def counters(self) -> Counters:
        """What is counted of it."""
        return Counters(self.attempts, self.errors, self.releases, self.interruptions)

    def reservation(self, token: str, now: float) -> Reservation:
        """The delivery that a pop with this token makes of the waiting row."""
        return Reservation(
            envelope=self.envelope,
            counters=Counters(self.attempts + 1, self.errors, self.releases, self.interruptions),
            receipt=f"{self.seq}:{token}",
            now=now,
            pushed_at=self.pushed_at,
            retry_until=self.retry_until,
            history=history.load(self.history),
        )

    def delivery(self, token: str, now: float) -> Reservation:
        """The delivery under way, that the pop with this token made of it."""
        return replace(self.reservation(token, now), counters=self.counters)

    def stored_job(self, now: float) -> StoredJob:
        """The row as an operator sees it."""
        return StoredJob(
            envelope=self.envelope,
            state=self._seen_state(now),
            counters=self.counters,
            pushed_at=self.pushed_at,
            due=self.at if self.state == DELAYED else None,
            leased_until=self.at if self.state == RESERVED else None,
            retry_until=self.retry_until,
            history=history.load(self.history),
            progress=_load_progress(self.progress),
        )

    def _seen_state(self, now: float) -> State:
        if self.state == RESERVED:
            return State.RESERVED
        return State.DELAYED if self.state == DELAYED and self.at > now else State.READY


def job_row(row: Sequence[Any]) -> JobRow:
    """A row as it was read. What should be a number and is none, by whoever's hand, counts as 0, as it does in SQL.

    A name that is no text has a text that says what it is, which no job has for a name.
    """
    job = JobRow._make(row)
    # One check of the types of all, because this is done for each job that is popped.
    if _NUMERIC.issuperset(map(type, _numbers(job))) and type(job.name) is str:
        return job
    wrong = [name for name in _NUMBERS if type(getattr(job, name)) not in _NUMERIC]
    right: dict[str, Any] = {name: None if name == "retry_until" else 0 for name in wrong}
    return job._replace(**right, name=job.name if type(job.name) is str else repr(job.name))


_NUMBERS = ("at", *COUNTERS, "pushed_at", "retry_until")
_NUMERIC = {int, float, type(None)}
_numbers = operator.attrgetter(*_NUMBERS)


JOB_COLUMNS = [jobs.c[name] for name in JobRow._fields]


class FailedRow(NamedTuple):
    """One row of `flask_jobs_failed`, in the order of `FAILED_COLUMNS`."""

    seq: int
    failed_at: float
    hook: str
    error_type: str
    error_message: str
    error_traceback: str
    error_causes: str
    id: str
    name: str
    queue: str
    attempts: int
    errors: int
    releases: int
    interruptions: int
    pushed_at: float
    history: str | None
    retried_from: str | None
    ties: str | None
    body: str

    def failed_job(self) -> FailedJob:
        """The row as the port's value."""
        ties = load_ties(self.ties, job_id=self.id)
        return FailedJob(
            envelope=Envelope(self.id, self.name, self.queue, self.body, self.retried_from, ties),
            error=ErrorRecord(
                self.error_type, self.error_message, self.error_traceback, tuple(json.loads(self.error_causes))
            ),
            counters=Counters(self.attempts, self.errors, self.releases, self.interruptions),
            pushed_at=self.pushed_at,
            failed_at=self.failed_at,
            position=self.seq,
            history=history.load(self.history),
            hook=Hook(self.hook),
        )


FAILED_COLUMNS = [failed.c[name] for name in FailedRow._fields]


def error_parameters(error: ErrorRecord) -> dict[str, object]:
    """The error as the columns of the failed record, storable whatever it says."""
    clean = storable(error)
    return {
        "error_type": clean.type,
        "error_message": clean.message,
        "error_traceback": clean.traceback,
        "error_causes": json.dumps(clean.causes),
    }


def counter_parameters(counters: Counters) -> dict[str, object]:
    """The counters as columns."""
    return {
        "attempts": counters.attempts,
        "errors": counters.errors,
        "releases": counters.releases,
        "interruptions": counters.interruptions,
    }


def history_after(reservation: Reservation, entry: Entry | None) -> str | None:
    """The delivery's history with one more entry, as the column holds it."""
    entries = () if entry is None else (entry,)
    return history.dump(history.extended(reservation.history, *entries))


def dump_progress(progress: Progress) -> str:
    """The progress as the column holds it."""
    return json.dumps([progress.done, progress.total, progress.message])


def _load_progress(text: str | None) -> Progress | None:
    if text is None:
        return None
    try:
        done, total, message = json.loads(text)
    except (ValueError, TypeError):  # somebody else's hand; it is not worth more than the rest of the row
        return None
    return Progress(done, total, message)
