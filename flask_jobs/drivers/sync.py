"""Runs each job at once, where it is dispatched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

from .. import clock
from ..config import ConnectionSettings
from ..driver import Driver
from ..envelope import Counters, Popped, Push, Pushed, Reservation, Room, Settled, Settlement, Sizes, instant
from . import Surroundings


class SyncDriver(Driver):
    """Nothing ever waits here: a push is an attempt, and the job's error reaches whoever pushed.

    A delay is not waited for, and nothing is tried again. Of jobs that are pushed together each one runs, whatever
    the others do, as it would with a worker.
    """

    runs_inline: ClassVar[bool] = True
    durable: ClassVar[bool] = False

    def __init__(self, run: Callable[[Driver, Reservation], None]) -> None:
        self._run = run

    def push(self, pushes: Sequence[Push]) -> list[Pushed]:
        """Run all jobs in order, then raise the first error that came out of them."""
        errors: list[Exception] = []
        for push in pushes:
            try:
                self._run(self, _reservation(push))
            except Exception as error:  # a job may raise anything, and those behind it are not to blame
                errors.append(error)
        if len(errors) > 1:
            errors[0].add_note(f"{len(errors) - 1} more of the jobs dispatched together failed; the log tells of each.")
        if errors:
            raise errors[0]
        return [Pushed(push.envelope.id) for push in pushes]

    def pop(self, queues: Sequence[str], token: str, room: Room) -> Popped:
        """Nothing waits."""
        return Popped((), clock.now())

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Nothing was handed out, so all are too late."""
        return Settled(tuple(settlements))

    def recover(self, token: str, keep: Collection[str] = ()) -> int:
        """Nothing is held."""
        return 0

    def wait(self, queues: Sequence[str], *, timeout: float, stopping: Callable[[], bool]) -> None:
        """There will never be work to wait for."""

    def size(self, queue: str) -> Sizes:
        """Nothing waits."""
        return Sizes()


def create(settings: ConnectionSettings, surroundings: Surroundings) -> SyncDriver:
    """The driver of a connection with ``"driver": "sync"``."""
    return SyncDriver(surroundings.run)


def _reservation(push: Push) -> Reservation:
    now = clock.now()
    deadline = None if push.retry_until is None else instant(push.retry_until, now)
    return Reservation(push.envelope, Counters(attempts=1), push.envelope.id, now, now, deadline)
