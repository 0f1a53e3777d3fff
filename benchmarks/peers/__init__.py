"""One module for each that is measured, imported only where its library is installed. Each has a `peer`.

The environment says where the jobs go: BENCH_STORE and BENCH_URL, and BENCH_OPTION where there is more than one way.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence

STORE = os.environ.get("BENCH_STORE", "")
URL = os.environ.get("BENCH_URL", "")
OPTION = os.environ.get("BENCH_OPTION", "")


class NoSuchCall(Exception):
    """It has no call that dispatches many jobs."""


class Peer(ABC):
    """A queue and its workers. All that is not asked for here is left as the library has it by default."""

    apart: bool = False
    """Whether its command starts one process only, so that two are two commands."""

    def prepare(self) -> None:
        """Make what the store must have, and connect."""
        return

    @abstractmethod
    def dispatch(self, number: int, seconds: float) -> None:
        """Store one job that records its number after so many seconds of sleep."""

    def dispatch_each(self, numbers: Sequence[int], seconds: float) -> None:
        """The same for each of these, one by one."""
        for number in numbers:
            self.dispatch(number, seconds)

    def dispatch_many(self, numbers: Sequence[int], seconds: float) -> None:
        """The same for many, in the library's own call for that."""
        raise NoSuchCall

    @abstractmethod
    def command(self, processes: int, threads: int) -> list[str]:
        """What starts a worker, with the Python that runs this. It must need no more than this environment."""
