"""Server processes that tests start, and waiting for them; those that one run of the tests shares end with it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from tests.ran_where import note_missing

LIMIT = 15.0
"""Seconds for anything that is waited for."""

_RUN = "JOBS_TEST_RUN"
"""Names the folder of this run of the tests to all of its processes. It is no setting of Flask's, as FLASK_... are."""


def missing(server: str, why: str) -> NoReturn:
    """Skip the test with one clear line; where all servers must be there, fail it."""
    note_missing(server, why)
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


def wait_until(condition: object, *, what: str, within: float = LIMIT) -> None:
    """Wait for the condition, and fail if it does not come true."""
    assert callable(condition)
    end = time.monotonic() + within
    while not condition():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess(ABC):
    """A server of a test's own, with its data in a folder: it may be stopped, and started again where it was."""

    stopping = signal.SIGTERM
    """Asks it to end politely."""

    killing = signal.SIGKILL
    """Ends it at once."""

    def __init__(self, folder: Path, command: Sequence[str | Path], *, user: str | None = None) -> None:
        self.folder = folder
        self._command = command
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process, which runs."""
        assert self._process is not None
        return self._process.pid

    @abstractmethod
    def answers(self) -> bool:
        """Whether it serves."""

    def start(self) -> None:
        """Start, or start again with the data that was kept, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            # A session of its own, so that Ctrl-C ends the tests first.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self.folder,
                start_new_session=True,
            )
        wait_until(self._has_begun, what=f"the first answer of {self._command[0]}", within=60)

    def stop(self) -> None:
        """Stop politely: what it has accepted is kept."""
        self._end(self.stopping)

    def kill(self) -> None:
        """Stop at once, as a crash does."""
        self._end(self.killing)

    def signal(self, number: int) -> None:
        """Send the server's process a signal."""
        os.kill(self.pid, number)

    def _end(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(2 * LIMIT)
            self._process = None

    def _has_begun(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()[-2_000:]
        return self.answers()


@contextmanager
def running_tests() -> Iterator[None]:
    """A run of the tests: the servers that it shares are started when they are asked for, and ended here."""
    # Servers run as another user than root, who has to reach the folder.
    folder = Path(tempfile.mkdtemp(prefix="flask_jobs-"))
    folder.chmod(0o755)
    os.environ[_RUN] = str(folder)
    try:
        yield
    finally:
        for note in folder.glob("*.json"):
            server = json.loads(note.read_text())
            _end(server["pid"], server["signal"])
        shutil.rmtree(folder, ignore_errors=True)


def shared(name: str, start: Callable[[Path], tuple[str, ServerProcess]]) -> str:
    """The URL of the server that this run of the tests shares, started by the first process that asks for it."""
    run = Path(os.environ[_RUN])
    note = run / f"{name}.json"
    with (run / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not note.exists():
            folder = run / name
            folder.mkdir()
            url, server = start(folder)
            note.write_text(json.dumps({"url": url, "pid": server.pid, "signal": server.stopping}))
            _children.append(server)
    return str(json.loads(note.read_text())["url"])


# Kept, for Python warns of a child that is forgotten while it runs.
_children: list[ServerProcess] = []


def _end(pid: int, politely: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, politely)
        for _ in range(100):
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            os.kill(pid, 0)
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
