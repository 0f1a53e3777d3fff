"""One run: load and faults until there was enough of both, then peace, then the look at the end."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from flask_jobs.driver import KeepsLocks
from tests.chaos.app import create_app, jobs
from tests.chaos.check import Check, Findings
from tests.chaos.command import Command
from tests.chaos.faults import ALL, Faults
from tests.chaos.ledger import Ledger, Line, Reader
from tests.chaos.load import Load
from tests.chaos.stores import Connection, held_locks, left_behind, opened, proxied
from tests.chaos.story import Story
from tests.processes import ServerProcess
from tests.proxy import Proxy

# Between these, so many jobs wait at a time.
_FEW = 150

# Seconds between two looks, and what a fault is put off by beyond that.
_LOOK, _JITTER = 0.01, 0.03


@dataclass(frozen=True)
class Plan:
    """What is to be done. It is over when `seconds` have passed, `jobs` are made and `strikes` faults are done, and in
    any case after `limit` seconds.

    `every` is the mean of the seconds between two faults, unless both `jobs` and `strikes` are given, which then go
    side by side. `patience` is what the end may take.
    """

    store: str
    seed: int
    seconds: float = 0.0
    limit: float = float("inf")
    jobs: int = 0
    strikes: int = 0
    every: float = 0.5
    commands: int = 1
    processes: int = 3
    threads: int = 1
    lease: float = 90.0
    patience: float = 60.0
    faults: Mapping[str, int] = field(default_factory=lambda: ALL)


@dataclass
class Report:
    """What came of it."""

    plan: Plan
    seconds: float
    faults: Mapping[str, int]
    findings: Findings

    def lines(self) -> Iterator[str]:
        """All of it, to be read."""
        plan = self.plan
        yield (
            f"{plan.store}, seed {plan.seed}: {self.seconds:.0f} s, {plan.commands} x {plan.processes} processes "
            f"x {plan.threads} threads, a lease of {plan.lease:g} s"
        )
        for kind, times in sorted(self.faults.items()):
            yield f"  {times:6} x {kind}"
        for what, times in self.findings.counts.items():
            yield f"  {times:6} {what}"
        yield f"  {len(self.findings.wrong):6} WRONG"
        yield from (f"    {what}" for what in self.findings.wrong[:40])


def run(plan: Plan, folder: Path) -> Report:
    """Do it in this folder, which keeps ledger and logs."""
    with ExitStack() as stack:
        connection, server = stack.enter_context(opened(plan.store, folder, own="restart server" in plan.faults))
        reached, proxy = connection, None
        if plan.store != "sqlite" and {"cut", "hang"} & plan.faults.keys():
            reached, proxy = stack.enter_context(proxied(connection))
        return Run(plan, folder, connection, reached, stack).report(proxy, server)


class Run:
    """The state of a run. Workers reach their store by another way than producers and the look at the end."""

    def __init__(self, plan: Plan, folder: Path, connection: Connection, reached: Connection, stack: ExitStack) -> None:
        lease = {"retry_after": plan.lease}
        self._plan = plan
        self._folder = folder
        self._connection = {**connection, **lease}
        self._reached = {**reached, **lease}
        self._dice = random.Random(plan.seed)
        self._commands: list[Command] = []
        self._started = 0
        self._lines: list[Line] = []
        self._known: set[int] = set()
        self._busy: set[int] = set()
        self._ended: set[str] = set()
        self._wrong: list[str] = []
        self._app = create_app(str(folder), self._connection)
        self._ledger: Ledger = self._app.extensions["chaos"]
        self._reader = Reader(folder / "ledger")
        stack.callback(self._close)
        stack.enter_context(self._app.app_context())

    def report(self, proxy: Proxy | None, server: ServerProcess | None) -> Report:
        """Do all of it."""
        began, driver = time.monotonic(), jobs.driver()
        driver.prepare()
        assert isinstance(driver, KeepsLocks)
        faults = Faults(random.Random(self._plan.seed + 1), self._ledger, driver.store, proxy, server, self._plan.lease)
        self._storm(faults)
        if proxy is not None:
            proxy.heal()
        self._calm()
        findings = self._look()
        findings.wrong[:0] = self._wrong
        return Report(self._plan, time.monotonic() - began, self._story.faults, findings)

    def _storm(self, faults: Faults) -> None:
        plan, load = self._plan, Load(self._ledger, self._dice)
        kinds, weights = list(plan.faults), list(plan.faults.values())
        began, strikes, pace = time.monotonic(), 0, self._pace()
        while (age := time.monotonic() - began) < plan.limit and (
            age < plan.seconds or load.made < plan.jobs or strikes < plan.strikes
        ):
            self._follow()
            if load.made - len(self._ended) < _FEW:
                load.push()
            self._replace()
            faults.due()
            if self._busy and next(pace):
                time.sleep(self._dice.uniform(0, _JITTER))
                strikes += faults.strike(self._dice.choices(kinds, weights)[0], self._commands, self._busy)
            time.sleep(_LOOK)
        faults.due(all_of_them=True)

    def _pace(self) -> Iterator[bool]:
        """Says each time whether the next fault is due."""
        plan = self._plan
        goes_by_jobs = bool(plan.jobs and plan.strikes)
        mean, due = plan.jobs / plan.strikes if goes_by_jobs else plan.every, 0.0
        while True:
            now = len(self._ended) if goes_by_jobs else time.monotonic()
            yield now >= due
            if now >= due:
                due = now + self._dice.expovariate(1 / mean)

    def _calm(self) -> None:
        """Let everything come to its end, and end the commands."""
        driver, ends = jobs.driver(), time.monotonic() + self._plan.patience
        while (size := driver.size("default")).ready + size.delayed + size.reserved:
            self._replace()
            if time.monotonic() >= ends:
                self._wrong.append(f"after {self._plan.patience:g} s of peace there are still {size}")
                break
            time.sleep(0.1)
        for command in self._commands:
            command.process.terminate()
        self._bury(self._commands)
        self._commands = []
        self._follow()
        _, left = psutil.wait_procs(list(_alive(self._known)), timeout=10)
        self._wrong += [f"worker {process.pid} has outlived its command" for process in left]

    def _look(self) -> Findings:
        """After everything has ended, judge it."""
        self._follow()
        driver, failed = jobs.driver(), []
        while page := driver.failed(before=failed[-1].position if failed else None, limit=500):
            failed += page
        self._story = Story(self._lines)
        findings = Check(self._story, failed).all()
        while driver.flush() or driver.prune_batches(older_than=0):
            pass
        locks = {f"overlap/chaos.exclusive/{line['key']}" for line in self._lines if line.get("kind") == "exclusive"}
        findings.wrong += [f"still held: {key}" for key in held_locks(driver.store, locks)]
        findings.wrong += [f"left in the store: {what}" for what in left_behind(self._connection)]
        return findings

    def _follow(self) -> None:
        for line in self._reader.new():
            self._lines.append(line)
            if line["event"] == "worker":
                self._known.add(line["pid"])
            elif line["event"] == "taken":
                self._busy.add(line["pid"])
            elif line["event"] in ("end", "hook"):
                self._ended.add(line["label"])

    def _replace(self) -> None:
        """Start a command for each that has ended."""
        gone = [command for command in self._commands if not command.is_alive]
        self._bury(gone)
        self._commands = [command for command in self._commands if command not in gone]
        while len(self._commands) < self._plan.commands:
            options = ["--processes", str(self._plan.processes), "--threads", str(self._plan.threads)]
            self._commands.append(Command(self._folder, self._reached, self._started, *options))
            self._started += 1

    def _bury(self, commands: list[Command]) -> None:
        self._wrong += [complaint for command in commands if (complaint := self._complaint(command)) is not None]

    def _complaint(self, command: Command) -> str | None:
        return command.complaint(may_be_cut_off="cut" in self._plan.faults)

    def _close(self) -> None:
        for command in self._commands:
            command.end()
        for process in _alive(self._known):
            process.kill()
        self._app.extensions["flask_jobs"].connections.close()
        self._reader.close()
        self._ledger.close()


@contextmanager
def _gone() -> Iterator[None]:
    try:
        yield
    except psutil.NoSuchProcess:
        return


def _alive(pids: set[int]) -> Iterator[psutil.Process]:
    """Those of our workers that are there. A number may have been given to somebody else."""
    for pid in pids:
        with _gone():
            process = psutil.Process(pid)
            if "tests.chaos.app:create_app" in " ".join(process.cmdline()):
                yield process
