"""Listens for a restart that somebody has asked for through the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from .. import log
from ..errors import ConnectionLost, StoreRefused
from ..threads import start_deaf
from ..worker.settings import Stop

logger = logging.getLogger(__name__)

# Seconds between two questions.
_EVERY = 2.0


class Ear:
    """Asks `why_leave` every two seconds, in a thread of its own, because asking may take its time."""

    def __init__(self, why_leave: Callable[[], Stop | None]) -> None:
        self.heard: Stop | None = None
        self._why_leave = why_leave
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="restarts", daemon=True)

    def __enter__(self) -> Ear:
        start_deaf(self._thread)
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()

    def _run(self) -> None:
        while self.heard is None and not self._ended.wait(_EVERY):
            try:
                self.heard = self._why_leave()
            except (ConnectionLost, StoreRefused):  # the workers say that the store is away
                continue
            except Exception:  # a driver's bug must not make the command deaf
                log.complain(logger, "Asking whether to restart failed.")
