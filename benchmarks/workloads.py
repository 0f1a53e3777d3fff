"""The measurements, each at a place of its own and with a limit of time; no figure where there is no such call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

from .contenders import Contender, SideError, run_side
from .stores import Place, Store
from .workers import Workers

DISPATCH_LIMIT = 3.0
DRAIN_LIMIT = 4.0

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Amounts:
    """How many jobs are dispatched and drained, sleep, and wake a worker; how many seconds an idle one is watched."""

    jobs: int = 10_000
    sleeping: int = 2_000
    wakes: int = 300
    idle: float = 4.0


@dataclass(frozen=True, slots=True)
class Stage:
    """One contender at one place."""

    contender: Contender
    place: Place
    environment: Mapping[str, str]

    def dispatch(self, action: str, amount: int, seconds: float = 0) -> dict[str, float] | None:
        """Dispatch in the peer's own process; what it counted, None if there is no such call."""
        counted = run_side(self.contender, self.environment, action, amount, seconds, DISPATCH_LIMIT)
        return cast("dict[str, float] | None", counted)

    def fill(self, amount: int, seconds: float = 0) -> int:
        """Dispatch in the quickest way there is; how many wait now."""
        counted = self.dispatch("fill", amount, seconds)
        assert counted
        return 1 + int(counted["jobs"])  # it has dispatched one before it began to count

    def workers(self, processes: int, threads: int = 1) -> Workers:
        """Workers of the contender at this place, not yet started."""
        return Workers(self.contender, self.environment, processes, threads)


@contextmanager
def staged(contender: Contender, store: Store) -> Iterator[Stage]:
    """The contender at a fresh place, which is left empty."""
    memory = Path("/dev/shm")  # where a record costs no disk
    with (
        TemporaryDirectory(prefix="bench-") as folder,
        TemporaryDirectory(prefix="bench-", dir=memory if memory.is_dir() else None) as quick,
        store.opened(Path(folder)) as place,
    ):
        environment = contender.environment(store.name, place, Path(folder), Path(quick) / "record")
        yield Stage(contender, place, environment)


def dispatch_and_drain(stage: Stage, amounts: Amounts) -> Figures:
    """Dispatch one by one and in thousands, then drain it all with one process."""
    one = stage.dispatch("dispatch", amounts.jobs)
    many = stage.dispatch("many", amounts.jobs)
    assert one
    waiting = int(one["jobs"] + (many["jobs"] if many else 0)) + 2
    stage.place.take_stock()
    with stage.workers(1) as workers:
        workers.wait_for_first()
        drained = _rate(workers, waiting)
    figures = {"dispatch/s": one["jobs"] / one["seconds"], "drain/s, 1 process": drained}
    return figures | ({"dispatch_many/s": many["jobs"] / many["seconds"]} if many else {})


def two_processes(stage: Stage, amounts: Amounts) -> Figures:
    """Drain with two worker processes that are up already."""
    return {"drain/s, 2 processes": _held(stage, 2, 1, amount=amounts.jobs)}


def sleeping(stage: Stage, amounts: Amounts) -> Figures:
    """Drain jobs that sleep 10 ms, 32 at a time."""
    return {"10 ms jobs/s, 32 at once": _held(stage, 2, 16, amount=amounts.sleeping, seconds=0.01)}


def _held(stage: Stage, processes: int, threads: int, *, amount: int, seconds: float = 0) -> float:
    """Jobs a second of workers that are held still while the jobs are dispatched, so that no start is in it."""
    first = stage.fill(4 * processes * threads, seconds)
    with stage.workers(processes, threads) as workers:
        workers.wait_for_first(first)
        workers.wait_until_still()
        workers.hold()
        workers.forget()
        waiting = stage.fill(amount, seconds)
        stage.place.take_stock()
        workers.let_go()
        workers.wait_for_first()
        return _rate(workers, waiting)


def _rate(workers: Workers, amount: int) -> float:
    """Jobs a second from the begin of the first to the end of the last, or to the limit: a stall counts."""
    in_time = workers.wait_for(amount, DRAIN_LIMIT)
    stopped = time.monotonic_ns()
    done = workers.recorded()
    end = max(run.ended for run in done) if in_time else stopped
    return len(done) / (end - min(run.began for run in done)) * 1e9


def idle(stage: Stage, amounts: Amounts) -> Figures:
    """What a worker that waits costs, and how soon it begins a job."""
    stage.dispatch("dispatch", 1)
    with stage.workers(1) as workers:
        workers.wait_for_first()
        workers.wait_until_still()
        memory = workers.memory()
        used, began = workers.used(), time.monotonic()
        time.sleep(amounts.idle)
        share = 100 * (workers.used() - used) / (time.monotonic() - began)
        workers.forget()
        sent = cast("list[int]", run_side(stage.contender, stage.environment, "wake", amounts.wakes))
        workers.wait_for(len(sent) + 1, 10)
        delays = sorted((run.began - sent[run.number]) / 1e6 for run in workers.recorded() if run.number >= 0)
    if len(delays) < len(sent):
        raise SideError(f"{len(sent) - len(delays)} of {len(sent)} jobs did not begin within 10 s")
    return {
        "pick-up p50, ms": statistics.median(delays),
        "pick-up p99, ms": delays[int(0.99 * len(delays))],
        "idle, % of a core": share,
        "idle, MB": memory,
    }


MEASURES: Mapping[str, Callable[[Stage, Amounts], Figures]] = {
    "dispatch and drain": dispatch_and_drain,
    "two processes": two_processes,
    "sleeping": sleeping,
    "idle": idle,
}
