"""What peers have in common whose calls are coroutines."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence

import uvloop

from . import NoSuchCall, Peer


class AsyncPeer(Peer):
    """One whose calls are awaited: each before the next, on one event loop that goes on between them."""

    def prepare(self) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._runner.run(self.open())

    def dispatch(self, number: int, seconds: float) -> None:
        self._runner.run(self.dispatch_async(number, seconds))

    def dispatch_each(self, numbers: Sequence[int], seconds: float) -> None:
        self._runner.run(self._dispatch_each(numbers, seconds))

    def dispatch_many(self, numbers: Sequence[int], seconds: float) -> None:
        self._runner.run(self.dispatch_many_async(numbers, seconds))

    @abstractmethod
    async def open(self) -> None:
        """Make what the store must have, and connect."""

    @abstractmethod
    async def dispatch_async(self, number: int, seconds: float) -> None:
        """Store one job."""

    async def dispatch_many_async(self, numbers: Sequence[int], seconds: float) -> None:
        """Store many, in the library's own call for that."""
        raise NoSuchCall

    async def _dispatch_each(self, numbers: Sequence[int], seconds: float) -> None:
        for number in numbers:
            await self.dispatch_async(number, seconds)
