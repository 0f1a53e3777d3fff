"""Whether the kernel has ended a process because memory ran out."""

from __future__ import annotations

from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")


class OutOfMemory:
    """Counts how often that has happened in this process's control group (cgroup v2); elsewhere nobody can tell."""

    def __init__(self) -> None:
        self._events = _events_file()
        self._count = self._read()

    def has_struck(self) -> bool:
        """Whether it has happened since this was last asked."""
        before, self._count = self._count, self._read()
        return self._count > before

    def _read(self) -> int:
        try:
            lines = self._events.read_text().splitlines() if self._events is not None else []
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))


def _events_file() -> Path | None:
    try:
        line = Path("/proc/self/cgroup").read_text().splitlines()[-1]
    except (OSError, IndexError):
        return None
    return _GROUPS / line.rpartition(":")[2].lstrip("/") / "memory.events"
