"""The frozen values that travel between dispatcher, driver and worker.

Instants are epoch seconds by the store's clock, durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True)
class After:
    """So many seconds after the store's present."""

    seconds: float


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Key:
    """A unique key, held by one job at a time.

    `digest` is what stores compare (see `validation.key_digest`), `said` what people read. The job holds it until
    it has ended, or with `until_processing` until its body starts, and never longer than `seconds`.
    """

    digest: str
    said: str
    until_processing: bool = False
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Ties:
    """What a job's end is to be told: its unique key, its chain and its place there (from 1), its batch.

    `is_callback`: it is no link or member, but was stored to be run when one of them has ended.
    """

    key: Key | None = None
    chain: str | None = None
    link: int = 0
    batch: str | None = None
    is_callback: bool = False


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Push:
    """An envelope on its way into a store.

    `front` goes to the head of its queue. `retry_until` is the job's deadline. `deferred` says that it waited
    for a commit.
    """

    envelope: Envelope
    due: When = NOW
    front: bool = False
    retry_until: When | None = None
    deferred: bool = False


@dataclass(frozen=True, slots=True)
class Pushed:
    """The answer to one push.

    `stored` is false when nothing was added: the id was stored before, or `holder` is the id of the job that holds
    the unique key.
    """

    id: str
    stored: bool = True
    holder: str | None = None


class Role(Enum):
    """What a planned job is stored for."""

    LINK = "link"
    CATCH = "catch"
    THEN = "then"
    FINALLY = "finally"


@dataclass(frozen=True, slots=True)
class ChainPush:
    """Jobs to run one after the other, pushed as a whole: the first at once, each other with the success before it.

    `catch` is run once if a link fails. The ties of each link name the chain and its place.
    """

    id: str
    links: tuple[Push, ...]
    catch: Push | None = None


@dataclass(frozen=True, slots=True)
class BatchPush:
    """Jobs to run in any order, pushed and counted together. The ties of each member name the batch.

    `callbacks` are run once each: `then` when all members are done, `catch` at the first failure, `finally` when
    none is left. Without `allow_failures` the first failure cancels the batch.
    """

    id: str
    members: tuple[Push, ...]
    name: str = ""
    callbacks: Mapping[Role, Push] = field(default_factory=dict)
    allow_failures: bool = False


Package = Push | ChainPush | BatchPush
"""What can be pushed within a transaction of the application."""


def pushes_in(package: Package) -> Sequence[Push]:
    """All jobs of a package, whether they are pushed at once or later."""
    match package:
        case Push():
            return [package]
        case ChainPush(links=links, catch=catch):
            return links if catch is None else [*links, catch]
        case BatchPush(members=members, callbacks=callbacks):
            return [*members, *callbacks.values()]


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Entry:
    """One unhappy transition: what, when, in which attempt, why, and until when the job was put off."""

    event: Event
    at: float
    attempt: int
    reason: str = ""
    until: float | None = None


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """A failure in storable form: see `history.describe`."""

    type: str
    message: str
    traceback: str = ""
    causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Ack:
    """The job is done with and leaves the store. `skipped`: it ended quietly, without having been done."""

    reservation: Reservation
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """The job goes back, due at `due`, with these counters and one more line in its history."""

    reservation: Reservation
    due: When
    counters: Counters
    entry: Entry


@dataclass(frozen=True, slots=True)
class Fail:
    """The job has failed for good: its record is written and the job removed in one step."""

    reservation: Reservation
    error: ErrorRecord
    counters: Counters
    entry: Entry | None = None


Settlement = Ack | Release | Fail


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Popped:
    """What a pop found. `next_due` is when the next delayed job or lease falls due, if nothing was found."""

    reservations: tuple[Reservation, ...]
    now: float
    next_due: float | None = None
    reclaimed: tuple[Reclaimed, ...] = ()


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """A job whose lease ran out and which this pop took in again. `charged`: its attempt stays counted."""

    envelope: Envelope
    attempt: int
    charged: bool


@dataclass(frozen=True, slots=True)
class Followed:
    """A job that was stored in the step that ended another: the next link, or a callback.

    `holder` is the id of the job that holds its unique key, for then it was dropped, and its chain with it.
    """

    envelope: Envelope
    holder: str | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer of a settling: the settlements that came too late, and what followed from the others."""

    stale: tuple[Settlement, ...] = ()
    followed: tuple[Followed, ...] = ()


@dataclass(frozen=True, slots=True)
class Exchange:
    """The answer of settle and pop in one step."""

    settled: Settled
    popped: Popped

    @property
    def stale(self) -> tuple[Settlement, ...]:
        """The settlements that came too late."""
        return self.settled.stale


class State(Enum):
    """Where a stored job is."""

    READY = "ready"
    DELAYED = "delayed"
    RESERVED = "reserved"


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many jobs of a queue wait now, wait for their time, and are with a worker."""

    ready: int = 0
    delayed: int = 0
    reserved: int = 0


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A stored job as an operator sees it."""

    envelope: Envelope
    state: State
    counters: Counters
    pushed_at: float
    due: float | None = None
    leased_until: float | None = None
    retry_until: float | None = None
    history: tuple[Entry, ...] = ()
    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class FailedJob:
    """A job given up on, kept whole for retry. `position` orders the failed jobs and pages through them."""

    envelope: Envelope
    error: ErrorRecord
    counters: Counters
    pushed_at: float
    failed_at: float
    position: int
    history: tuple[Entry, ...] = ()
    hook: Hook = Hook.PENDING


@dataclass(frozen=True, slots=True)
class StoredChain:
    """A chain that has not ended. `link` (from 1) is the place of the job `job_id`, which waits, runs or has failed.

    `waiting` are the links after it, `catch` is what runs if one fails; None once it has.
    """

    id: str
    total: int
    link: int
    job_id: str
    created_at: float
    waiting: tuple[Envelope, ...] = ()
    catch: Envelope | None = None


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch and how far it is. `total` is always the sum of `pending`, `done`, `failed` and `skipped`.

    `callbacks` counts its callbacks that are stored and have not ended; `is_whole` is false while members are still
    being pushed, or if that was cut short.
    """

    id: str
    name: str
    total: int
    pending: int
    done: int
    failed: int
    skipped: int
    allow_failures: bool
    created_at: float
    cancelled_at: float | None = None
    finished_at: float | None = None
    callbacks: int = 0
    is_whole: bool = True
