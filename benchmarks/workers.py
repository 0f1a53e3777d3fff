"""The processes of one worker: started, held still, looked at, and ended, whatever library they are of."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

from .contenders import ROOT, Contender, SideError, reason
from .record import Run, count, runs

START_LIMIT = 20.0
STILL_LIMIT = 5.0
STILL = 0.03
"""How many seconds of CPU a worker that has nothing to do uses in half a second at most."""


class Workers:
    """A command and all processes it has started. They are gone when the context is left."""

    def __init__(self, contender: Contender, environment: Mapping[str, str], processes: int, threads: int) -> None:
        self._arguments = [contender.python, "-m", "benchmarks.side", contender.peer, "work"]
        self._arguments += [str(processes), str(threads)]
        self._environment = environment
        self._recorded = Path(environment["BENCH_RECORD"])
        self._log = Path(environment["BENCH_FOLDER"]) / "worker.log"

    def __enter__(self) -> Workers:
        self._recorded.write_bytes(b"")
        with self._log.open("wb") as log:
            self._command = subprocess.Popen(
                self._arguments,
                env=self._environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_error: object) -> None:
        for _ in range(100):
            left = self._processes()
            for process in left:
                _signal(process, signal.SIGKILL)
            self._command.poll()
            if not left:
                break
            time.sleep(0.02)
        self._command.wait(10)

    def recorded(self) -> list[Run]:
        """What its jobs have recorded."""
        return runs(self._recorded)

    def forget(self) -> None:
        """Begin the record anew."""
        os.truncate(self._recorded, 0)

    def wait_for(self, amount: int, limit: float) -> bool:
        """Wait until so many jobs have run; whether they have in time."""
        return self._wait(lambda: count(self._recorded) >= amount, limit)

    def wait_for_first(self, amount: int = 1) -> None:
        """Wait for the first jobs, or say what the worker said."""
        if not self.wait_for(amount, START_LIMIT):
            raise SideError(f"no job has begun within {START_LIMIT:.0f} s: {self._reason()}")

    def wait_until_still(self) -> None:
        """Wait until it has had nothing to do for half a second, or as long as can be waited for that."""
        used = [self.used()]

        def is_still() -> bool:
            time.sleep(0.25)
            used.append(self.used())
            return len(used) > 2 and used[-1] - used[-3] <= STILL

        self._wait(is_still, STILL_LIMIT)

    def hold(self) -> None:
        """Stop all processes where they are."""
        for process in self._processes():
            _signal(process, signal.SIGSTOP)

    def let_go(self) -> None:
        """Continue them."""
        for process in self._processes():
            _signal(process, signal.SIGCONT)

    def used(self) -> float:
        """Seconds of CPU that its processes have used."""
        return sum(sum(process.info["cpu_times"][:2]) for process in self._processes())

    def memory(self) -> float:
        """Megabytes of all processes, what they share counted once, where the system can tell."""
        infos = [process.memory_full_info() for process in self._processes()]
        return float(sum(getattr(info, "pss", info.rss) for info in infos)) / 1_000_000

    def _wait(self, condition: Callable[[], bool], limit: float) -> bool:
        deadline = time.monotonic() + limit
        while not condition():
            if self._command.poll() is not None:
                raise SideError(f"its worker has ended: {self._reason()}")
            if time.monotonic() > deadline:
                return False
            time.sleep(0.004)
        return True

    def _processes(self) -> list[psutil.Process]:
        """Those of its session, for a parent may have died, and all below, which may have sessions of their own."""
        everyone = list(psutil.process_iter(["ppid", "status", "cpu_times"]))
        found = {process.pid for process in everyone if _session(process.pid) == self._command.pid}
        below = found
        while below:
            below = {process.pid for process in everyone if process.info["ppid"] in found} - found
            found |= below
        return [each for each in everyone if each.pid in found and each.info["status"] != psutil.STATUS_ZOMBIE]

    def _reason(self) -> str:
        return reason(self._log.read_text(errors="replace"))


def _signal(process: psutil.Process, number: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None
