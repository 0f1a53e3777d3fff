"""The faults: each is done, and written into the ledger with the instants between which it was."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psutil

from flask_jobs import restarts
from flask_jobs.store import Store
from tests.chaos.command import Command
from tests.chaos.ledger import Ledger
from tests.processes import ServerProcess
from tests.proxy import Proxy

WORKERS_ONLY = {"kill worker": 6, "freeze": 1}
"""What no supervisor dies of: everything is settled at once, and no lease runs out."""

ALL = {
    "kill worker": 8,
    "freeze": 2,
    "freeze past lease": 1,
    "kill supervisor": 1,
    "kill tree": 1,
    "terminate": 1,
    "restart": 1,
    "restart server": 1,
    "cut": 3,
    "hang": 1,
}

# What makes a process id the number of its clock: see clock_getcpuclockid(3).
_OF_PROCESS = 2


@dataclass
class Faults:
    """Does one fault after the other. `lease` is what a lease lasts, in seconds."""

    dice: random.Random
    ledger: Ledger
    store: Store
    proxy: Proxy | None
    server: ServerProcess | None
    lease: float
    _later: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def strike(self, kind: str, commands: Sequence[Command], known: Collection[int]) -> bool:
        """Do a fault of this kind, if there is somebody to suffer it."""
        try:
            return self._strike(kind, commands, known)
        except psutil.NoSuchProcess:
            return False

    def due(self, *, all_of_them: bool = False) -> None:
        """End what was to last for a while."""
        now = time.monotonic()
        over = [action for at, action in self._later if all_of_them or at <= now]
        self._later = [] if all_of_them else [later for later in self._later if later[0] > now]
        for action in over:
            action()

    def _strike(self, kind: str, commands: Sequence[Command], known: Collection[int]) -> bool:
        if kind == "restart":
            with self._noting(kind):
                restarts.ask(self.store)
            return True
        if kind == "restart server":
            return self._restart_the_server(kind)
        if kind in ("cut", "hang"):
            return self._break_connections(kind)
        if kind in ("kill worker", "freeze", "freeze past lease"):
            workers = [worker for command in commands for worker in command.workers(known)]
            return bool(workers) and self._strike_worker(kind, self.dice.choice(workers))
        ready = [command for command in commands if command.is_alive and command.workers(known)]
        return bool(ready) and self._strike_command(kind, self.dice.choice(ready))

    def _strike_worker(self, kind: str, worker: psutil.Process) -> bool:
        with self._noting(kind, worker):
            worker.kill() if kind == "kill worker" else worker.suspend()
        if kind != "kill worker":
            is_long = kind == "freeze past lease"
            seconds = self.lease + 1 if is_long else self.dice.uniform(0.02, min(1.0, self.lease / 3))
            self._after(seconds, lambda: _resume(worker))
        return True

    def _strike_command(self, kind: str, command: Command) -> bool:
        if kind == "terminate":
            with self._noting(kind):
                command.process.terminate()
            return True
        command.is_to_die = True
        workers = command.process.children()
        if kind == "kill supervisor":
            # The system hangs up on a stopped group that nobody is left to wake, which ends it.
            stopped = [worker for worker in workers if worker.status() == psutil.STATUS_STOPPED]
            with self._noting(kind, *stopped):
                command.process.kill()
            return True
        with self._noting(kind, *workers):
            for process in (command.process, *workers):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        return True

    def _restart_the_server(self, kind: str) -> bool:
        if self.server is None:
            return False
        with self._noting(kind):
            self.server.stop()
            self.server.start()
        return True

    def _break_connections(self, kind: str) -> bool:
        if self.proxy is None:
            return False
        with self._noting(kind):
            if kind == "hang":
                self.proxy.freeze()
                self._after(self.dice.uniform(0.05, min(1.0, self.lease / 3)), self.proxy.thaw)
            else:
                cut = self.dice.choice([self.proxy.cut_before, self.proxy.lose_answer])
                cut(self.dice.randrange(5), matching=b"")
        return True

    @contextmanager
    def _noting(self, kind: str, *processes: psutil.Process) -> Iterator[None]:
        pids = [process.pid for process in processes]
        began, computed = time.monotonic(), [_computed(pid) for pid in pids]
        yield
        self.ledger.note("fault", at=began, until=time.monotonic(), kind=kind, pids=pids, computed=computed)

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, action))


def _resume(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.resume()


def _computed(pid: int) -> float | None:
    """For how many seconds the process has computed; None if it is gone, or the system does not tell."""
    with suppress(OSError):
        return time.clock_gettime((~pid << 3) | _OF_PROCESS) if sys.platform == "linux" else None
    return None
