"""What a supervisor is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..options import WorkerDefaults


@dataclass(frozen=True, slots=True)
class SupervisorSettings:
    """`command` starts a worker; `grace`, `max_time` and `retry_after` are seconds, None for no limit.

    `timeouts` are those of jobs that set one, by name; 0 for no limit.
    """

    command: Sequence[str]
    processes: int = 1
    threads: int = 1
    grace: float | None = 30.0
    max_time: float | None = None
    renew: bool = True
    retry_after: float = 90.0
    defaults: WorkerDefaults = field(default_factory=WorkerDefaults)
    timeouts: Mapping[str, float] = field(default_factory=dict)
