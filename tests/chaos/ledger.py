"""The ledger: one line for each event, appended whole, by all processes to one file."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Ledger:
    """Appends events, with the monotonic clock that all processes of a host share, and how long it computed."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(self, event: str, *, at: float | None = None, **facts: Any) -> None:
        """Append one line, in one system call."""
        present = time.monotonic() if at is None else at
        line = {"event": event, "at": present, "pid": os.getpid(), "cpu": time.process_time(), **facts}
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")

    def close(self) -> None:
        """Write no more."""
        os.close(self._descriptor)


class Reader:
    """Reads what has come since it was asked last."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._rest = b""

    def new(self) -> list[Line]:
        """The lines that are new, and whole."""
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Read no more."""
        self._file.close()
