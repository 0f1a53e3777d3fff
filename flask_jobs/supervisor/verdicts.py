"""When a worker process must go: pure decisions on what its slate says."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ..slate import LEFT, Held, State, View
from ..worker.ordering import margin


class Kill(Enum):
    """Why a supervisor has ended a worker process."""

    TIMEOUT = "a job did not end at its time limit"
    LEASE = "the lease of its job could not be renewed in time"
    HUNG = "it did not come back from the code around a job"
    NOT_READY = "it was not ready in time"
    STOP = "its job did not end in time when it had to stop"


# What the code around a job gets beyond a limit: what comes with one of its own is to meet that first.
_LONGER = 5.0


@dataclass(frozen=True, slots=True)
class Rules:
    """All in seconds. `retry_after`: what a lease lasts; `timeout`: the limit of jobs that set none (0: no limit), and
    `timeouts` those of the others by name; `overtime`: what a job gets beyond its time limit before its process is
    ended; `readiness`: the start."""

    retry_after: float
    timeout: float
    timeouts: Mapping[str, float] = field(default_factory=dict)
    overtime: float = 2.0
    readiness: float = 60.0

    @property
    def margin(self) -> float:
        """How long before the end of a lease its holder is ended, so that no second start overlaps the first."""
        return margin(self.retry_after)

    def patience(self, job: Held | None) -> float:
        """What the code around a job may take, such as loading it: as long as the job, if that is longer."""
        limits = [self.timeout, self.timeout if job is None else self.timeouts.get(job.name, self.timeout)]
        return max(limits) + _LONGER if all(limits) else math.inf


@dataclass(frozen=True, slots=True)
class Watched:
    """One lane as its supervisor sees it at an instant of the monotonic clock.

    `lease_began` is when the lease of what it holds was last given or renewed, `unchanged` for how many seconds it has
    said the same. `is_lost`: the store has said that the delivery under way is over. `is_frozen`: the process is
    stopped.
    """

    view: View
    now: float
    lease_began: float
    unchanged: float = 0.0
    is_lost: bool = False
    is_frozen: bool = False


def must_end(seen: Watched, rules: Rules) -> Kill | None:
    """Why the worker must be ended for what this lane says, None if it may go on."""
    view, now = seen.view, seen.now
    # A worker that is not stopped sees itself to what it has finished, and knows when that comes too late.
    at_stake = bool(view.unsettled) if seen.is_frozen else view.in_use and view.under_way is not None
    if at_stake and (seen.is_lost or now >= seen.lease_began + rules.retry_after - rules.margin):
        return Kill.LEASE
    if not view.in_use:
        return None
    running = view.running
    if running is not None and running.limit != LEFT:
        is_over = running.limit > 0 and now >= running.began + running.limit + rules.overtime
        return Kill.TIMEOUT if is_over else None
    return Kill.HUNG if seen.unchanged >= rules.patience(view.under_way) else None


def timed_out(view: View, rules: Rules, *, now: float) -> bool:
    """Whether the job of this lane is past its time limit and has not ended."""
    running = view.running
    if running is None or running.limit <= 0 or running.position >= len(view.held):
        return False
    state = view.held[running.position].state
    return state in (State.ENTERED, State.STARTED) and now >= running.began + running.limit + rules.overtime
