"""What is in a store, as operators see it: jobs, failed jobs, chains and batches."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .envelope import Counters, Entry, Envelope, ErrorRecord, Hook, Progress


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

    @property
    def name(self) -> str:
        """The registered name."""
        return self.envelope.name


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

    @property
    def name(self) -> str:
        """The registered name."""
        return self.envelope.name


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
