"""What a worker is told, and why it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ..options import WorkerDefaults


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker looks for jobs, when it ends, and what it lets stand in for what a job does not set.

    `queues` in order of priority. `sleep`: the longest wait between two looks. `once`: look once, run what is
    found. `stop_when_empty`: end when nothing is due; jobs that wait for their time do not count. `max_jobs` and
    `max_time` (seconds) end it after so much, `recycle_after` jobs for a fresh process to take over. `give_up_after`:
    end when the store has been away for so many seconds in one stretch. `renew`: keep the leases of running jobs alive.
    `retry_after`: how long a lease lasts if the driver does not say. `prefetch`: how many short jobs one pop may take,
    None for as many as are of use.
    """

    queues: tuple[str, ...]
    defaults: WorkerDefaults = field(default_factory=WorkerDefaults)
    sleep: float = 3.0
    once: bool = False
    stop_when_empty: bool = False
    max_jobs: int | None = None
    max_time: float | None = None
    recycle_after: int | None = None
    give_up_after: float | None = None
    renew: bool = True
    retry_after: float = 90.0
    prefetch: int | None = None


class Stop(Enum):
    """Why a worker ended. `exit_code` is 0 unless it cut a job short, left one unsettled, or gave the store up."""

    SIGNAL = "it was told to stop"
    INTERRUPTED = "it had to stop before its job was done, and cut it short"
    ONCE = "it was to look once"
    EMPTY = "nothing is due"
    MAX_JOBS = "it has run as many jobs as it was to"
    MAX_TIME = "its time is up"
    STORE_AWAY = "the store was away for longer than it was to wait"
    RESTART = "a restart was asked for"
    MEMORY = "it takes more memory than it was to, and a fresh process takes over"
    RECYCLED = "it has run as many jobs as one process was to, and a fresh one takes over"
    TIMED_OUT = "a job reached its time limit in it, and a fresh process takes over"
    ORPHANED = "its supervisor is gone"

    @property
    def exit_code(self) -> int:
        """What the process should exit with."""
        return _EXIT_CODES.get(self, 0)

    @property
    def concerns_all(self) -> bool:
        """Whether the other threads of the process have to end as well."""
        return self.is_for_a_fresh_one or self in (Stop.STORE_AWAY, Stop.RESTART, Stop.ORPHANED)

    @property
    def is_for_a_fresh_one(self) -> bool:
        """Whether another process is to go on in its place."""
        return self in (Stop.MEMORY, Stop.RECYCLED, Stop.TIMED_OUT)


_EXIT_CODES = {Stop.INTERRUPTED: 1, Stop.STORE_AWAY: 3}
