"""The bare loop on each store: no jobs, no app, no promise, 50 bodies ended and taken in one step."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from ..bare import Bare, open_bare
from ..record import perform
from . import STORE, URL, Peer

AT_ONCE = 50
PADDING = "x" * 120  # with the rest as long as the body of the same job of the library


class BareLoop(Peer):
    apart = True

    def __init__(self) -> None:
        self._bare: Bare = open_bare(STORE, URL)

    def prepare(self) -> None:
        self._bare.prepare()

    def dispatch(self, number: int, seconds: float) -> None:
        self.dispatch_many((number,), seconds)

    def dispatch_many(self, numbers: Sequence[int], seconds: float) -> None:
        self._bare.insert([json.dumps((number, seconds, PADDING)) for number in numbers])

    def command(self, processes: int, threads: int) -> list[str]:
        return [sys.executable, "-m", __name__]

    def loop(self) -> None:
        """Run what is there, for ever."""
        done: Sequence[object] = ()
        while True:
            done, bodies = self._bare.exchange(done, AT_ONCE)
            for body in bodies:
                number, seconds, _padding = json.loads(body)
                perform(number, seconds)
            if not bodies:
                time.sleep(0.02)


peer = BareLoop()

if __name__ == "__main__":
    peer.loop()
