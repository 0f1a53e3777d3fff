"""Rounds of polite stops at random moments: each command leaves with 0 and with no job in its hands."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from flask import Flask

from tests.chaos.app import Plain, create_app, jobs
from tests.chaos.command import Command
from tests.chaos.ledger import Reader
from tests.chaos.stores import Connection, opened
from tests.chaos.story import Story
from tests.faults.workers import wait_for

# Seconds after its first worker began to look for jobs within which a command is stopped.
_LATEST = 1.0

# More than a command comes to within its round.
_FEW = 60

_LONGEST = 0.03


@dataclass
class Rounds:
    """So many rounds on one store, `lanes` at a time, each lane with a queue of its own."""

    store: str
    seed: int
    rounds: int
    lanes: int = 2
    processes: int = 2
    limit: float = float("inf")
    done: int = 0
    jobs: int = 0
    wrong: list[str] = field(default_factory=list)

    def run(self, folder: Path) -> None:
        """Do them in this folder, which keeps ledger and logs."""
        with ExitStack() as stack:
            connection, _ = stack.enter_context(opened(self.store, folder))
            app = create_app(str(folder), connection)
            stack.callback(app.extensions["flask_jobs"].connections.close)
            with app.app_context():
                jobs.driver().prepare()
            began = time.monotonic()
            with ThreadPoolExecutor(self.lanes) as pool:
                lanes = [
                    pool.submit(self._lane, lane, began + self.limit, app, folder, connection)
                    for lane in range(self.lanes)
                ]
            for lane in lanes:
                lane.result()
            self._judge(folder)

    def lines(self) -> Iterator[str]:
        """What came of it, to be read."""
        yield f"{self.store}, seed {self.seed}: {self.done} commands stopped by SIGTERM, {self.jobs} jobs"
        yield f"  {len(self.wrong):6} WRONG"
        yield from (f"    {what}" for what in self.wrong[:40])

    def _lane(self, lane: int, ends: float, app: Flask, folder: Path, connection: Connection) -> None:
        dice, queue = random.Random(self.seed + lane), f"lane-{lane}"
        with app.app_context():
            for number in range(lane, self.rounds, self.lanes):
                if time.monotonic() >= ends:
                    break
                self._fill(dice, app, queue)
                self._round(dice, Command(folder, connection, number, *self._options(queue)), queue)
            self._drain(Command(folder, connection, self.rounds + lane, *self._options(queue)), queue)

    def _options(self, queue: str) -> list[str]:
        return ["--queue", queue, "--processes", str(self.processes)]

    def _fill(self, dice: random.Random, app: Flask, queue: str) -> None:
        """Have some jobs wait, each with a label that nothing else has."""
        while (size := jobs.driver().size(queue).ready) < _FEW:
            labels = [f"{queue}-{dice.getrandbits(64):x}" for _ in range(_FEW - size)]
            for label in labels:
                app.extensions["chaos"].note("made", label=label, kind="plain")
            jobs.dispatch_many([Plain(label, dice.uniform(0, _LONGEST)) for label in labels], queue=queue)

    def _round(self, dice: random.Random, command: Command, queue: str) -> None:
        try:
            # Before this it has no workers, and Python itself answers to signals.
            wait_for(lambda: not command.is_alive or command.process.children(), limit=60)
            if dice.random() < 0.75:
                wait_for(lambda: not command.is_alive or "worker started" in command.log, limit=60)
            time.sleep(dice.uniform(0, _LATEST))
            self._stop(command, queue)
        finally:
            command.end()
        self.done += 1

    def _drain(self, command: Command, queue: str) -> None:
        try:
            wait_for(lambda: not any(self._held(queue)), limit=120)
            self._stop(command, queue)
        finally:
            command.end()

    def _stop(self, command: Command, queue: str) -> None:
        workers = command.process.children()
        command.process.terminate()
        _, alive = psutil.wait_procs(workers, timeout=60)
        complaint = command.complaint(may_be_cut_off=False)
        self.wrong += [complaint] if complaint is not None else []
        self.wrong += [f"{len(alive)} of {len(workers)} workers did not end"] if alive else []
        reserved = self._held(queue)[1]
        self.wrong += [f"{reserved} jobs are reserved after an exit"] if reserved else []

    @staticmethod
    def _held(queue: str) -> tuple[int, int]:
        size = jobs.driver().size(queue)
        return size.ready + size.delayed, size.reserved

    def _judge(self, folder: Path) -> None:
        reader = Reader(folder / "ledger")
        story = Story(reader.new())
        reader.close()
        self.jobs = len(story.jobs)
        for told in story.jobs.values():
            attempts = [begin["attempt"] for begin in told.begins]
            if len(told.ends) != 1 or attempts != [1]:
                self.wrong.append(f"{told.label}: ended {len(told.ends)} times, begun in attempts {attempts}")
