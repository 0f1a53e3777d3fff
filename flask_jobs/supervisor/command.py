"""The command line that starts a worker process: the one that has started the supervisor, once more."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

_FOLDERS: list[str] = []
with contextlib.suppress(OSError):  # it was removed, and a fresh process is no worse off there than this one
    # Looked at when the commands are loaded, which is before the application is.
    _FOLDERS.append(os.getcwd())


def started_in() -> str | None:
    """The folder in which a relative command line means the same as at the start; None for where this process is."""
    return next((folder for folder in _FOLDERS if os.path.isdir(folder)), None)


def own_command_line(*words: str) -> Sequence[str] | None:
    """How to start this program again, None if its command line does not have these words and so did not lead here.

    It does not where a test calls the command, or a program of the application's own.
    """
    arguments = sys.orig_argv[1:]
    if not arguments or arguments[0] == "-" or not _in_order(words, sys.argv[1:]):
        return None
    return [sys.executable, *arguments]


def _in_order(words: Sequence[str], arguments: Sequence[str]) -> bool:
    rest = iter(arguments)
    return all(word in rest for word in words)
