"""Waiting for the answer to a command that blocks, for no longer than until a signal comes."""

from __future__ import annotations

import os
import select
import signal
import threading
from typing import Any

# How soon it is noticed that there is no more reason to wait, in seconds: where signals wake, and where none does.
_WOKEN, _UNWOKEN = 0.5, 0.1


class Wakeful:
    """While it is entered in the main thread, each signal that has a handler ends a wait.

    Elsewhere, and where somebody else has himself woken by signals already, a wait ends by itself soon enough.
    """

    def __init__(self) -> None:
        self._pipe: tuple[int, int] | None = None

    def __enter__(self) -> Wakeful:
        if threading.current_thread() is not threading.main_thread():
            return self
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        self._pipe = reading, writing
        if (other := signal.set_wakeup_fd(writing, warn_on_full_buffer=False)) != -1:
            signal.set_wakeup_fd(other)
            self._close()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pipe is not None:
            signal.set_wakeup_fd(-1)
            self._close()

    def wait(self, connection: Any, limit: float) -> bool:
        """Whether there is something to read, after `limit` seconds or sooner."""
        if self._pipe is None:
            return bool(connection.can_read(timeout=min(limit, _UNWOKEN)))
        if connection.can_read():
            return True  # it may have been read from the socket before
        poll = select.poll()
        poll.register(connection._sock, select.POLLIN)  # redis-py waits for one socket alone
        poll.register(self._pipe[0], select.POLLIN)
        # Rounded up: none at all would make this a busy loop.
        woken = [descriptor for descriptor, _ in poll.poll(int(min(limit, _WOKEN) * 1_000) + 1)]
        if self._pipe[0] in woken:
            os.read(self._pipe[0], 4_096)
        return any(descriptor != self._pipe[0] for descriptor in woken)

    def _close(self) -> None:
        for descriptor in self._pipe or ():
            os.close(descriptor)
        self._pipe = None
