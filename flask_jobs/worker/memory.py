"""How much memory a process takes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from .post import spared
from .settings import Stop

if sys.platform != "win32":
    import resource

_MEGABYTE = 1_048_576

# Seconds between two looks, which take some microseconds.
_EVERY = 0.2


def resident() -> int:
    """Bytes of memory that this process takes; where the system does not tell, the most that it ever took."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def too_much(megabytes: float) -> Callable[[], Stop | None]:
    """Says that the process is to end when it takes more; looks a few times a second."""
    return spared(lambda: Stop.MEMORY if resident() > megabytes * _MEGABYTE else None, every=_EVERY)
