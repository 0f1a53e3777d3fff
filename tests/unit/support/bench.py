"""A workbench: an app, a store in memory, and workers on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from blinker import NamedSignal

from flask_jobs import events
from flask_jobs.drivers.memory import MemoryDriver
from flask_jobs.envelope import Envelope, Exchange, Popped, Reservation, Room, Settled, Settlement
from flask_jobs.errors import ConnectionLost
from flask_jobs.ids import new_id
from flask_jobs.job import Job
from flask_jobs.pushes import Push
from flask_jobs.worker import Carrier, Post, Stop, Worker, WorkerSettings

from .app import App, job
from .values import NOW


class Store(MemoryDriver):
    """The memory driver with a clock that tests set, a list of calls, and failures on demand.

    `before[call]` and `after[call]` hold errors to raise instead of the call, or after it was done: a request
    that never arrived, a reply that was lost.
    """

    def __init__(self, *, retry_after: float = 90.0, now: Callable[[], float] | None = None) -> None:
        self.time = NOW
        super().__init__(retry_after=retry_after, now=now or (lambda: self.time))
        self.calls: list[str] = []
        self.before: dict[str, list[Exception]] = {}
        self.after: dict[str, list[Exception]] = {}
        self.waits: list[float] = []

    def add(self, name: str, *, queue: str = "default", **given: Any) -> str:
        """Push a job of this name and return its id."""
        job_id = new_id()
        self.push([Push(Envelope(job_id, name, queue, "{}.signature"), **given)])
        return job_id

    def pop(self, queues: Sequence[str], token: str, room: Room) -> Popped:
        return self._called("pop", lambda: super(Store, self).pop(queues, token, room))

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        return self._called("settle", lambda: super(Store, self).settle(settlements))

    def exchange(self, settlements: Sequence[Settlement], queues: Sequence[str], token: str, room: Room) -> Exchange:
        def both() -> Exchange:
            settled = super(Store, self).settle(settlements)
            return Exchange(settled, super(Store, self).pop(queues, token, room))

        return self._called("exchange", both)

    def recover(self, token: str, keep: Any = ()) -> int:
        return self._called("recover", lambda: super(Store, self).recover(token, keep))

    def held(self, token: str) -> list[Reservation]:
        return self._called("held", lambda: super(Store, self).held(token))

    def renew(self, reservations: Any) -> Any:
        return self._called("renew", lambda: super(Store, self).renew(reservations))

    def wait(self, queues: Sequence[str], *, timeout: float, stopping: Callable[[], bool]) -> None:
        self.waits.append(timeout)
        self._called("wait", lambda: super(Store, self).wait(queues, timeout=timeout, stopping=stopping))

    def _called(self, name: str, call: Callable[[], Any]) -> Any:
        self.calls.append(name)
        self._fail(self.before, name)
        answer = call()
        self._fail(self.after, name)
        return answer

    def _fail(self, planned: dict[str, list[Exception]], name: str) -> None:
        if planned.get(name):
            raise planned[name].pop(0)


def lost() -> ConnectionLost:
    return ConnectionLost("The store did not answer.")


class Bench:
    """What a test of the worker needs, and the signals it hears meanwhile, as pairs of name and facts."""

    def __init__(self, **given: Any) -> None:
        self.app = App()
        self.store = Store(**given)
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self._listening = ExitStack()

    def __enter__(self) -> Bench:
        for signal in vars(events).values():
            if isinstance(signal, NamedSignal):
                self._listening.enter_context(signal.connected_to(self._receiver(signal.name), sender=self.app))
        return self

    def __exit__(self, *exception: object) -> None:
        self._listening.close()

    def knows(self, name: str, handle: Callable[..., object], **members: Any) -> Job:
        """Register a job whose body is `handle`."""
        made = job(handle, **members)
        self.app.jobs[name] = lambda: made
        return made

    def worker(self, *, post: Post | None = None, carrier: Carrier | None = None, **settings: Any) -> Worker:
        """A worker that ends when nothing is due, unless it is told otherwise."""
        settings = {"queues": ("default",), "stop_when_empty": True, **settings}
        return Worker(
            self.store,
            self.app.executor,
            events=self.app.events,
            settings=WorkerSettings(**settings),
            jitter=lambda: 1.0,
            post=post,
            carrier=carrier,
        )

    def work(self, **settings: Any) -> Stop:
        """Run such a worker to its end."""
        return self.worker(**settings).run()

    def signals(self) -> list[str]:
        """The names of the signals about jobs, in order."""
        return [name for name, _ in self.heard if not name.startswith("worker")]

    def _receiver(self, name: str) -> Callable[..., None]:
        def receive(sender: object, **facts: Any) -> None:
            self.heard.append((name, facts))

        return receive
