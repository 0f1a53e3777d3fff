"""One `flask jobs work` under faults: its processes, and what its end should be."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Collection
from pathlib import Path

import psutil

from tests.chaos.stores import Connection
from tests.faults.workers import Worker

ROOT = Path(__file__).parents[2]

_CUT_OFF = ("Is it running, and does the", "was lost before the answer came", "A worker could not start")


class Command:
    """A supervisor with its workers, in a session of its own."""

    def __init__(self, folder: Path, connection: Connection, number: int, *options: str) -> None:
        kept = {key: os.environ[key] for key in ("PATH", "HOME", "TMPDIR") if key in os.environ}
        ours = {"CHAOS_FOLDER": str(folder), "CHAOS_CONNECTION": json.dumps(connection), "PYTHONPATH": str(ROOT)}
        flask = [sys.executable, "-m", "flask", "--app", "tests.chaos.app:create_app"]
        self._process = Worker(
            [*flask, "jobs", "work", "--sleep", "0.5", *options],
            environment={**kept, **ours},
            folder=folder,
            log=folder / f"log-{number}",
        )
        self.is_to_die = False
        self.process = psutil.Process(self._process.pid)

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive

    @property
    def log(self) -> str:
        return self._process.log

    def workers(self, known: Collection[int]) -> list[psutil.Process]:
        """Its worker processes that have come so far as to look for jobs."""
        with contextlib.suppress(psutil.NoSuchProcess):
            return [child for child in self.process.children() if child.pid in known]
        return []

    def complaint(self, *, may_be_cut_off: bool) -> str | None:
        """What was wrong with its end, if it has ended and not been killed.

        Where connections are cut, one may fall on the start of a command, which says so and leaves.
        """
        code = self._process.ended(60)
        if self.is_to_die or code == 0:
            return None
        if may_be_cut_off and code == 1 and "worker started" not in self.log and any(map(self.log.count, _CUT_OFF)):
            return None
        return f"a command exited with {code}: {self.log[-2_000:]}"

    def end(self) -> None:
        """Kill it with whatever it has left."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in self.process.children():
                child.kill()
        self._process.end()
