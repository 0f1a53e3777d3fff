"""The frozen values that travel between dispatcher, driver and worker.

Instants are epoch seconds by the store's clock, durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from .values import value


@value
class After:
    """So many seconds after the store's present."""

    seconds: float


@value
class At:
    """At this instant, in epoch seconds."""

    instant: float


When = After | At

NOW = After(0.0)


def instant(when: When, now: float) -> float:
    """The instant that `when` means at the store's present `now`."""
    match when:
        case After(seconds):
            return now + seconds
        case At(at):
            return at


@value
class Key:
    """A unique key, held by one job at a time.

    `digest` is what stores compare (see `validation.key_digest`), `said` what people read. The job holds it until
    it has ended, or with `until_processing` until its body starts, and never longer than `seconds`.
    """

    digest: str
    said: str
    until_processing: bool = False
    seconds: float | None = None


@value
class Ties:
    """What a job's end is to be told: its unique key, its chain and its place there (from 1), its batch.

    `is_callback`: it is no link or member, but was stored to be run when one of them has ended.
    """

    key: Key | None = None
    chain: str | None = None
    link: int = 0
    batch: str | None = None
    is_callback: bool = False


@value
class Envelope:
    """One stored job: its signed body, and beside it what a store must be able to read.

    The body is never re-encoded or re-signed. `retried_from` names the failed job that this one repeats. `ties` is
    None for a job that stands alone, so that it pays nothing.
    """

    id: str
    name: str
    queue: str
    body: str
    retried_from: str | None = None
    ties: Ties | None = None


@value
class Counters:
    """What is counted of a job, each apart: body starts, raised errors, put-backs and cut-short runs."""

    attempts: int = 0
    errors: int = 0
    releases: int = 0
    interruptions: int = 0


class Event(Enum):
    """The unhappy transitions that a job's history tells."""

    RELEASED = "released"
    ERROR = "error"
    TIMED_OUT = "timed-out"
    LEASE_EXPIRED = "lease-expired"
    INTERRUPTED = "interrupted"
    WORKER_DIED = "worker-died"
    UNKNOWN_JOB = "unknown-job"
    NEWER_VERSION = "newer-version"
    RETRIED = "retried"


@value
class Entry:
    """One unhappy transition: what, when, in which attempt, why, and until when the job was put off."""

    event: Event
    at: float
    attempt: int
    reason: str = ""
    until: float | None = None


@value
class ErrorRecord:
    """A failure in storable form: see `history.describe`."""

    type: str
    message: str
    traceback: str = ""
    causes: tuple[str, ...] = ()


@value
class Reservation:
    """One delivery of a job to one worker.

    `counters.attempts` includes this delivery. The receipt is read by nobody but the driver that wrote it.
    `now` is the store's clock when the job was reserved.
    """

    envelope: Envelope
    counters: Counters
    receipt: str
    now: float
    pushed_at: float
    retry_until: float | None = None
    history: tuple[Entry, ...] = ()

    @property
    def attempt(self) -> int:
        """The number of this body start, 1 on the first."""
        return self.counters.attempts


@value
class Ack:
    """The job is done with and leaves the store. `skipped`: it ended quietly, without having been done."""

    reservation: Reservation
    skipped: bool = False


@value
class Release:
    """The job goes back, due at `due`, with these counters and one more line in its history."""

    reservation: Reservation
    due: When
    counters: Counters
    entry: Entry


@value
class Fail:
    """The job has failed for good: its record is written and the job removed in one step."""

    reservation: Reservation
    error: ErrorRecord
    counters: Counters
    entry: Entry | None = None


Settlement = Ack | Release | Fail


@value
class Room:
    """How much one pop may take: at most `limit` jobs, and no more than `box` seconds of work.

    `means` holds the mean seconds that a job of each name takes. A job of unknown name, of a later attempt or
    with an interruption behind it is only ever taken alone, for nobody knows how long it runs.
    """

    limit: int = 1
    box: float = 0.02
    means: Mapping[str, float] = field(default_factory=dict)

    def expected(self, name: str, counters: Counters) -> float:
        """Seconds that a waiting job (counters as before this delivery) is expected to take."""
        if counters.attempts or counters.interruptions:
            return float("inf")
        return self.means.get(name, float("inf"))

    def fits(self, expected: float, *, taken: int, used: float) -> bool:
        """Whether a job fits beside `taken` others that fill `used` seconds. The first always fits."""
        return taken == 0 or (taken < self.limit and used + expected <= self.box)


@value
class Popped:
    """What a pop found. `next_due` is when the next delayed job or lease falls due, if nothing was found."""

    reservations: tuple[Reservation, ...]
    now: float
    next_due: float | None = None
    reclaimed: tuple[Reclaimed, ...] = ()


@value
class Reclaimed:
    """A job whose lease ran out and which this pop took in again. `charged`: its attempt stays counted."""

    envelope: Envelope
    attempt: int
    charged: bool


@value
class Followed:
    """A job that was stored in the step that ended another: the next link, or a callback.

    `holder` is the id of the job that holds its unique key, for then it was dropped, and its chain with it.
    """

    envelope: Envelope
    holder: str | None = None


@value
class Settled:
    """The answer of a settling: the settlements that came too late, and what followed from the others."""

    stale: tuple[Settlement, ...] = ()
    followed: tuple[Followed, ...] = ()


@value
class Exchange:
    """The answer of settle and pop in one step."""

    settled: Settled
    popped: Popped

    @property
    def stale(self) -> tuple[Settlement, ...]:
        """The settlements that came too late."""
        return self.settled.stale


@value
class Progress:
    """What a running job says of itself through `current_job.progress`."""

    done: float
    total: float | None = None
    message: str = ""


class Hook(Enum):
    """What became of a failed job's `failed()` method."""

    PENDING = "pending"
    RAN = "ran"
    RAISED = "raised"
    NONE = "none"
