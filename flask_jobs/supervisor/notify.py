"""What systemd is told of a service of ``Type=notify``: the protocol of sd_notify(3)."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

from .. import clock


class ServiceManager:
    """Where nobody listens, telling does nothing."""

    def __init__(self, address: str | None = None, *, watchdog: float | None = None) -> None:
        self._address = address
        # Twice as often as asked for, as the manual advises.
        self._every = None if watchdog is None else watchdog / 2
        self._beaten = 0.0

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> ServiceManager:
        """The one that has started this process."""
        span = environment.get("WATCHDOG_USEC", "")
        is_for_us = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        watchdog = int(span) / 1_000_000 if span.isdigit() and is_for_us else None
        return cls(environment.get("NOTIFY_SOCKET"), watchdog=watchdog)

    def ready(self) -> None:
        """The service is up."""
        self._tell(b"READY=1")

    def stopping(self) -> None:
        """It is on its way down."""
        self._tell(b"STOPPING=1")

    def beat(self) -> None:
        """It is alive; told no more often than it is asked for."""
        if self._every is not None and clock.monotonic() >= self._beaten + self._every:
            self._beaten = clock.monotonic()
            self._tell(b"WATCHDOG=1")

    def _tell(self, what: bytes) -> None:
        if not self._address:
            return
        # A name in the abstract namespace is written with an @.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
            line.sendto(what, address)
