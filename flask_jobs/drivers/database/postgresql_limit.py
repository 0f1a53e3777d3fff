"""A limit for the answers of a server that has stopped answering, and whose system keeps the connection alive.

PostgreSQL's client library waits for an answer for ever. So a connection that has been lent for too long is shut from
beside, and whoever waits on it is told that it is lost.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ... import clock

_LOOKING = 0.5

# The thread that looks ends when nobody has needed it for so many looks.
_IDLE_LOOKS = 20


class Limit:
    """Shuts connections that are lent for longer than `seconds`. Safe to use from several threads."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._lent: dict[object, tuple[float, int]] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def on(self, descriptor: int) -> Iterator[None]:
        """Limit what is done with the connection of this descriptor in here."""
        loan = object()
        with self._lock:
            self._lent[loan] = (clock.monotonic() + self._seconds, descriptor)
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="flask-jobs-limit", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._lent.pop(loan, None)

    def renew(self, descriptor: int) -> None:
        """The server has answered: for what comes next the connection is lent anew."""
        with self._lock:
            for loan, (_, lent) in self._lent.items():
                if lent == descriptor:
                    self._lent[loan] = (clock.monotonic() + self._seconds, descriptor)

    def _look(self) -> None:
        idle = 0
        while True:
            time.sleep(_LOOKING)
            with self._lock:
                self._shut_overdue()
                idle = 0 if self._lent else idle + 1
                if idle > _IDLE_LOOKS:
                    self._thread = None
                    return

    def _shut_overdue(self) -> None:
        present = clock.monotonic()
        for loan, (deadline, descriptor) in list(self._lent.items()):
            if deadline < present:
                del self._lent[loan]
                _shut(descriptor)


def _shut(descriptor: int) -> None:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        connection.shutdown(socket.SHUT_RDWR)
