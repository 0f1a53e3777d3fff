"""How `work` works: as a supervisor, as one of its workers, or all in one process."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from .. import log, restarts
from ..driver import KeepsLocks
from ..errors import ConfigurationError, ConnectionLost, StoreRefused
from ..job import is_set
from ..supervisor import Supervisor, SupervisorSettings
from ..worker import (
    Assignment,
    Bench,
    Carrier,
    Crew,
    Cutter,
    Farewell,
    PauseSignals,
    Post,
    Stop,
    Supervised,
    Worker,
    WorkerSettings,
    spared,
    too_much,
)
from .target import Target

logger = logging.getLogger(__name__)

ALONE, SUPERVISOR = "worker", "supervisor"
"""What processes are called that were given no name; those of a supervisor have a number as well."""

# Seconds between two questions to the store, and to the app.
_LISTEN_EVERY, _LOOK_EVERY = 2.0, 1.0

_MAINTENANCE_BEGINS = "The app is in maintenance (JOBS_MAINTENANCE): no job is taken until that is over."
_MAINTENANCE_ENDS = "The maintenance is over: jobs are taken again."


@dataclass(frozen=True, slots=True)
class Plan:
    """What `work` was told, beside what each worker is told. `grace` is seconds, `memory` megabytes, 0 for no limit."""

    target: Target
    settings: WorkerSettings
    processes: int
    threads: int
    grace: float
    memory: float
    name: str | None

    force: bool


def supervise(plan: Plan, command: Sequence[str]) -> int:
    """Start workers, watch over them until there is a reason to stop, and return the exit code."""
    target = plan.target
    _title(f"flask jobs: supervisor of {target.name}")
    settings = SupervisorSettings(
        command=command,
        processes=plan.processes,
        threads=plan.threads,
        grace=plan.grace,
        max_time=plan.settings.max_time,
        renew=plan.settings.renew,
        retry_after=plan.settings.retry_after,
        defaults=plan.settings.defaults,
        timeouts=own_timeouts(target),
    )
    events = target.state.events(target.name)
    return Supervisor(target.driver, events, settings, why_leave=_restart(target)).run()


def own_timeouts(target: Target) -> dict[str, float]:
    """The time limits of the jobs whose class sets one, by name."""
    classes = target.state.registry.jobs().items()
    return {name: cls.timeout for name, cls in classes if is_set(cls, "timeout") and cls.timeout is not None}


def work_under(assignment: Assignment, plan: Plan) -> int:
    """Be one of a supervisor's workers, and return the exit code."""
    _title(f"flask jobs: worker {assignment.slot} of {plan.target.name}")
    supervised = Supervised(assignment, grace=plan.grace, why_leave=_memory(plan), is_held_back=_maintenance(plan))
    carrier = Carrier(plan.target.driver, plan.settings.queues)
    crew = Crew(partial(_worker, plan.target, carrier), plan.settings, supervised.posts())
    with PauseSignals(is_watched=True):
        stop = supervised.run(crew, plan.name or ALONE)
    supervised.end()
    return stop.exit_code


def work_alone(plan: Plan) -> int:
    """Run jobs in this process, and return the exit code."""
    with PauseSignals() as pauses:
        memory, restart, maintenance = _memory(plan), _restart(plan.target), _maintenance(plan)
        benches = [Bench() for _ in range(plan.threads)]
        post = Post(
            is_held_back=lambda: pauses.is_paused() or maintenance(),
            why_leave=lambda: restart() or memory(),
            hear=Farewell(benches).hear,
        )
        crew = Crew(
            partial(_worker, plan.target, None), plan.settings, [replace(post, lane=bench) for bench in benches]
        )
        return crew.run(plan.name or ALONE).exit_code


def refuse_platform() -> None:
    """Raise where there are no process groups and signals, with which workers are watched over and ended."""
    if not (hasattr(os, "killpg") and hasattr(signal, "SIGKILL")):
        raise ConfigurationError(
            "Workers need a POSIX system, such as Linux or macOS: this platform has no signals and process groups to "
            "end a job with. On Windows, run them in WSL; dispatching works everywhere."
        )


def refuse_green_threads() -> None:
    """Raise where gevent has replaced what time limits and stops stand on."""
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and monkey.is_module_patched("threading"):
        raise ConfigurationError(
            "gevent has patched the standard library, and with greenlets no time limit could be enforced and no stop "
            "obeyed. Run the worker without the patch; for jobs that wait on the network there is --threads."
        )


def _worker(target: Target, carrier: Carrier | None, settings: WorkerSettings, post: Post, alarm: Cutter) -> Worker:
    events, executor = target.state.events(target.name), target.state.executor(target.name)
    return Worker(target.driver, executor, events=events, settings=settings, post=post, alarm=alarm, carrier=carrier)


def _memory(plan: Plan) -> Callable[[], Stop | None]:
    return too_much(plan.memory) if plan.memory else lambda: None


def _restart(target: Target) -> Callable[[], Stop | None]:
    """Says whether somebody has asked for a restart since now; in vain, where nothing can be kept beside the jobs."""
    driver = target.driver
    if not isinstance(driver, KeepsLocks):
        return lambda: None
    store, before = driver.store, restarts.asked(driver.store)

    def ask() -> Stop | None:
        try:
            return Stop.RESTART if restarts.is_asked(store, before) else None
        except (ConnectionLost, StoreRefused):  # taking jobs meets the same, and says so
            return None

    return spared(ask, every=_LISTEN_EVERY)


def _maintenance(plan: Plan) -> Callable[[], bool]:
    """Says whether the app is in maintenance, and so gives out nothing."""
    is_on = plan.target.state.config.maintenance
    if plan.force:
        return lambda: False

    is_known, was_on = True, False

    def ask() -> bool:
        nonlocal is_known, was_on
        try:
            answer, is_known = bool(is_on()), True
        except Exception as error:  # the application's own function: rather no job than one amid a maintenance
            if is_known:  # said once, and not each second
                log.note(
                    logger, logging.ERROR, "JOBS_MAINTENANCE raised; no job is taken until it answers.", error=error
                )
            answer, is_known = True, False
        if answer is not was_on:
            logger.info(_MAINTENANCE_BEGINS if answer else _MAINTENANCE_ENDS)
        was_on = answer
        return answer

    return spared(ask, every=_LOOK_EVERY)


def _title(title: str) -> None:
    with contextlib.suppress(ImportError):
        import setproctitle

        setproctitle.setproctitle(title)
