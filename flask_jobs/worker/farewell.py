"""What a stop waits for, in a line of the log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from queue import SimpleQueue

from .. import log
from ..slate import NoLane
from ..threads import start_deaf

logger = logging.getLogger(__name__)


def waiting_for(jobs: int, *, grace: float | None = None, why: str = "", again: bool = True) -> str:
    """That so many jobs (one at least) are waited for, and for how long. `again`: whether a second signal ends that."""
    patience = "" if grace is None else f"up to {grace:g} s "
    what, them = ("1 running job", "it") if jobs == 1 else (f"{jobs} running jobs", "them")
    hint = f"; a second signal cuts {them} short" if again else ""
    return f"Stopping{why and f' because {why}'}: waiting {patience}for {what}{hint}."


class Bench(NoLane):
    """The lane of a worker without a supervisor: notes no more than whether a job is at work."""

    is_taken = False

    def enter(self, position: int) -> None:
        """A job is taken up."""
        self.is_taken = True

    def leave(self) -> None:
        """No code of the application runs any more."""
        self.is_taken = False


class Farewell:
    """Says it where there is no supervisor, from a thread of its own: a job that a signal meets may hold any lock."""

    def __init__(self, benches: Sequence[Bench]) -> None:
        self._benches = benches
        self._signals: SimpleQueue[None] = SimpleQueue()
        start_deaf(threading.Thread(target=self._run, name="farewell", daemon=True))

    def hear(self) -> None:
        """A signal to stop has come. Safe to call from its handler."""
        self._signals.put(None)

    def _run(self) -> None:
        self._signals.get()
        if jobs := sum(bench.is_taken for bench in self._benches):
            log.note(logger, logging.INFO, waiting_for(jobs))
