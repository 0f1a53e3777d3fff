"""Handing what was dispatched to a driver, and telling of what has become of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

from .dispatched import Status
from .driver import Driver, RunsBatches, RunsChains, RunsInline
from .envelope import After
from .events import Events
from .items import Item, answered
from .pushes import BatchPush, ChainPush, Package, Push, Pushed, pushes_in

Refusal = Callable[[str, Push, str], None]
"""Told the connection, the job that was dropped, and the id of the one that holds its unique key."""


class Delivery:
    """Pushes items to their drivers. `events` tells what happens to the jobs of a connection, by its name."""

    def __init__(self, events: Callable[[str], Events]) -> None:
        self._events = events
        self._refusals: list[Refusal] = []

    @contextmanager
    def refusing(self, tell: Refusal) -> Iterator[None]:
        """Within the block, `tell` hears of each job that is dropped for another one. Blocks nest."""
        self._refusals.append(tell)
        try:
            yield
        finally:
            self._refusals.remove(tell)

    def push(self, items: Sequence[Item]) -> None:
        """Push to one driver, in order; what was stored when something goes wrong has arrived."""
        driver = items[0].driver
        left = list(items)
        try:
            for kind, alike in groupby(items, key=lambda item: type(item.package)):
                group = list(alike)
                self._push_alike(driver, kind, group)
                del left[: len(group)]
                self.arrived(group, Status.RAN if driver.runs_inline else Status.PUSHED)
        except Exception:
            for item in left:
                item.answer.status = Status.FAILED
            raise
        finally:
            run_here(items)

    def note(self, item: Item, pushes: Sequence[Push], answers: Sequence[Pushed]) -> None:
        """Keep in mind what was stored, and tell of what was dropped for another job that holds its key."""
        pairs = list(zip(pushes, answers, strict=True))
        item.stored = [push for push, answer in pairs if answer.stored]
        for push, answer in pairs:
            if answer.holder is not None:
                self.refuse(item, push, answer.holder)

    def refuse(self, item: Item, package: Package, holder: str) -> None:
        """Tell of a job that is not stored, for another one holds its unique key."""
        dropped = answered(package)[0]
        if not isinstance(item.package, BatchPush):
            item.answer.status, item.answer.holder = Status.DUPLICATE, holder
        self._events(item.connection).dropped(dropped.envelope, holder=holder, answered=not dropped.deferred)
        for tell in self._refusals[-1:]:
            tell(item.connection, dropped, holder)

    def arrived(self, items: Sequence[Item], status: Status) -> None:
        """Tell of what was stored."""
        for item in items:
            if item.answer:
                item.answer.status = status
            events = self._events(item.connection)
            for push in item.stored:
                due = push.due
                delay = due.seconds if isinstance(due, After) and due.seconds else None
                events.dispatched(push.envelope, delay=delay)

    def _push_alike(self, driver: Driver, kind: type[Package], items: Sequence[Item]) -> None:
        """Push packages of one kind: single jobs all at once, chains and batches one by one."""
        if kind is Push:
            pushes = [item.package for item in items if isinstance(item.package, Push)]
            for item, push, answer in zip(items, pushes, driver.push(pushes), strict=True):
                if answer.stored:
                    item.stored = (push,)
                else:
                    self.note(item, (push,), (answer,))
            return
        for item in items:
            match item.package, driver:
                case ChainPush() as chain, RunsChains():
                    self.note(item, chain.links[:1], [driver.push_chain(chain)])
                case BatchPush() as batch, RunsBatches():
                    self.note(item, batch.members, driver.push_batch(batch))


def run_here(items: Sequence[Item]) -> None:
    """Run what was stored, where there is no worker to do it."""
    driver = items[0].driver
    if isinstance(driver, RunsInline):
        # The callbacks of an empty batch are due at once.
        groups = [pushes_in(item.package) if isinstance(item.package, BatchPush) else item.stored for item in items]
        driver.run([push.envelope.id for group in groups for push in group])
