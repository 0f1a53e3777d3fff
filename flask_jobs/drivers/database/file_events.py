"""The kernel's word that a file was written, where it gives one: inotify on Linux.

It makes waiting prompt and all but free. It is a hint and no more: whoever waits looks for himself now and then,
for not every file system tells.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
from collections.abc import Sequence

_MODIFIED, _ATTRIBUTES = 0x2, 0x4


class FileEvents:
    """Waits until one of the files is written to. Raises `OSError` where the kernel has no such thing."""

    def __init__(self, paths: Sequence[str]) -> None:
        if sys.platform != "linux":
            raise OSError("only Linux has inotify")
        self._paths = [os.fsencode(path) for path in paths]
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = int(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), "inotify is not to be had")
        self._watch_files()

    def wait(self, seconds: float) -> bool:
        """Whether a file was written to, as soon as it was or after so many seconds."""
        # One of its own for each call: Python lets only one thread at a time wait with the same one.
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        # Rounded up: poll() takes whole milliseconds, and none at all would make this a busy loop.
        if not poll.poll(int(seconds * 1_000) + 1):
            return False
        try:
            os.read(self._descriptor, 65_536)
        except BlockingIOError:  # another thread has read it
            return True
        # A file may have been made or replaced meanwhile.
        self._watch_files()
        return True

    def close(self) -> None:
        """Stop watching."""
        os.close(self._descriptor)

    def _watch_files(self) -> None:
        for path in self._paths:
            self._libc.inotify_add_watch(self._descriptor, path, _MODIFIED | _ATTRIBUTES)
