"""How much memory a process has needed at most."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_of(process: int | str = "self") -> float:
    """The process's peak so far in megabytes; of another process only where /proc tells, else 0.

    The kernel's other account, `ru_maxrss`, starts with the size of the parent that it was forked from.
    """
    status = Path(f"/proc/{process}/status")
    if status.exists():
        lines = (line.split() for line in status.read_text().splitlines())
        return next((int(line[1]) / 1_024 for line in lines if line[0] == "VmHWM:"), 0.0)
    if process != "self":
        return 0.0
    unit = 1_048_576 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
