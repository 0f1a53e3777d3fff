"""The processes of the demo: started, watched, and ended whatever happens."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class DemoFailed(Exception):
    """Something did not happen that should have."""


class Process:
    """A command in the background whose lines are shown as they come, and kept."""

    def __init__(self, title: str, popen: subprocess.Popen[str], *, shown: bool) -> None:
        self.title = title
        self.lines: list[str] = []
        self._popen = popen
        self._shown = shown
        self._in_traceback = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._popen.pid

    @property
    def has_ended(self) -> bool:
        """Whether it is gone."""
        return self._popen.poll() is not None

    def children(self) -> list[int]:
        """The processes that it has started."""
        table = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
        pairs = [line.split() for line in table.splitlines()]
        return [int(child) for child, parent in pairs if int(parent) == self.pid]

    def wait(self, limit: float) -> int:
        """Wait for its end and its last line; gives the exit code."""
        code = self._popen.wait(limit)
        self._reader.join(limit)
        return code

    def end(self, how: signal.Signals, *, limit: float = 10) -> int:
        """Send the signal and wait; gives the exit code. Past the limit it is sent again, as an order to hurry."""
        if not self.has_ended:
            self._popen.send_signal(how)
        try:
            return self.wait(limit)
        except subprocess.TimeoutExpired:
            self._popen.send_signal(how)
            return self.wait(limit)

    def found(self, pattern: str) -> re.Match[str] | None:
        """The first match among its lines so far."""
        return next((match for line in list(self.lines) if (match := re.search(pattern, line))), None)

    def _read(self) -> None:
        assert self._popen.stdout is not None
        with self._popen.stdout as lines:
            for line in lines:
                if self._shown:
                    self._show(line.rstrip())
                self.lines.append(line.rstrip())  # who waits for a line goes on when it is shown

    def _show(self, line: str) -> None:
        if line.startswith("Traceback "):
            self._in_traceback = True
            line = "  (its traceback is left out here; it is kept with the failed job)"
        elif self._in_traceback:
            self._in_traceback = line.startswith(" ")
            return
        print(f"    {self.title}{line}".rstrip(), flush=True)


class Stage:
    """The folder, the environment and the processes of one performance. Ends them all on the way out."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started = time.monotonic()
        self._processes: list[Process] = []
        self._environment = {key: value for key, value in os.environ.items() if not key.startswith("FLASK_")}
        self._environment |= {
            "FLASK_APP": "example_app",
            "FLASK_SHOP_FOLDER": str(folder),
            "FLASK_SECRET_KEY": f"demo-{secrets.token_hex()}",  # all processes of one app share it
            "PYTHONPATH": str(ROOT),
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "110",
        }

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for impatience in (signal.SIGINT, signal.SIGTERM):
            signal.signal(impatience, signal.SIG_IGN)  # a second Ctrl-C must not leave a process behind
        for process in self._processes:
            process.end(signal.SIGTERM, limit=5)

    def start(self, title: str, *command: str, shown: bool = True, **settings: str) -> Process:
        """Start a flask command in the background."""
        show_command(command, settings)
        return self._begin(f"{title} │ ", command, settings, shown=shown)

    def flask(self, *command: str) -> None:
        """Run a flask command to its end, and show what it prints."""
        show_command(command, {})
        self._finish(self._begin("", command, {}, shown=True), command)

    def ask(self, *command: str) -> Any:
        """What a flask command answers, read as JSON."""
        process = self._begin("", command, {}, shown=False)
        self._finish(process, command)
        return json.loads("\n".join(process.lines))

    def wait_for(self, condition: Callable[[], object], *, what: str, limit: float = 30) -> None:
        """Return as soon as the condition holds, or say what did not happen in time."""
        latest = time.monotonic() + limit
        while not condition():
            if time.monotonic() > latest:
                raise DemoFailed(f"Not within {limit:g} seconds: {what}.")
            time.sleep(0.05)

    def _begin(self, title: str, command: tuple[str, ...], settings: dict[str, str], *, shown: bool) -> Process:
        popen = subprocess.Popen(
            [sys.executable, "-m", "flask", *command],
            env=self._environment | settings,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C reaches the demo alone, which then ends them in order
        )
        process = Process(title, popen, shown=shown)
        self._processes.append(process)
        return process

    def _finish(self, process: Process, command: tuple[str, ...]) -> None:
        if process.wait(30):
            said = "\n".join(process.lines)
            raise DemoFailed(f"`flask {shlex.join(command)}` did not succeed:\n{said}")


def show_command(command: tuple[str, ...], settings: dict[str, str]) -> None:
    """Print a command as one would type it."""
    words = [*(f"{key}={value}" for key, value in settings.items()), f"flask {shlex.join(command)}"]
    print(f"\n  $ {' '.join(words)}", flush=True)
