"""The only way in: a job becomes an envelope, passes the transaction gate, and is pushed."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from . import transactions
from .config import ConnectionSettings
from .connections import Connections
from .driver import Driver, Transactional
from .envelope import After, Envelope, Push
from .errors import CapabilityMissing, ConnectionLost, InvalidArgument, PushFailed, Stored, StoreRefused
from .events import Events
from .ids import new_id
from .job import Job
from .ledger import Reason
from .options import check, deadline
from .serializer import Serializer
from .sessions import Sessions
from .validation import job_id, queue_name, when

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy.orm import Session

T = TypeVar("T")

recovery = logging.getLogger("flask_jobs.recovery")


class Status(Enum):
    """What has become of a dispatch so far."""

    PUSHED = "pushed"
    DEFERRED = "deferred"
    RAN = "ran"
    DISCARDED = "discarded"
    FAILED = "failed"


@dataclass(slots=True)
class Dispatched:
    """The answer to a dispatch: the job's id, and where it is.

    A deferred one becomes pushed (or ran) with the commit, discarded with the rollback, or failed if it could not
    be stored after the commit.
    """

    id: str
    status: Status


@dataclass(frozen=True, slots=True)
class Options:
    """What a call may say about a dispatch; None leaves it to the job, then to the connection."""

    queue: str | None = None
    connection: str | None = None
    delay: object = None
    after_commit: bool | None = None
    front: bool = False
    id: object = None
    session: Session | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Item:
    """A job on its way into a connection, with the answer that its dispatcher holds."""

    connection: str
    push: Push
    answer: Dispatched
    sensitive: bool


class Dispatcher:
    """Dispatches the jobs of one app; also what a transaction hands its jobs to when it ends."""

    def __init__(
        self,
        *,
        serializer: Callable[[Driver], Serializer],
        connections: Connections,
        sessions: Callable[[], Sessions],
        events: Callable[[str], Events],
    ) -> None:
        self._serializer = serializer
        self._connections = connections
        self._sessions = sessions
        self._events = events

    def dispatch(self, job: Job, options: Options) -> Dispatched:
        """Hand the job over, at once or with the commit of the transaction that it belongs to."""
        return self.dispatch_many([job], options)[0]

    def dispatch_many(self, jobs: Iterable[Job], options: Options) -> list[Dispatched]:
        """Hand the jobs over together, in order: one push for each connection."""
        jobs = list(jobs)
        if options.id is not None and len(jobs) > 1:
            raise InvalidArgument("An id names one job: dispatch jobs with ids of their own one by one.")
        items = [self._item(job, options) for job in jobs]
        session = options.session if options.session is not None else self._sessions().existing()
        waiting = [self._waits(session, job, item, options) for job, item in zip(jobs, items, strict=True)]
        if any(waiting):
            # A block that defers everything may stand before the first use of the session.
            session = session if session is not None else self._sessions().current()
            transactions.defer(session, self, [_deferred(i) for i, waits in zip(items, waiting, strict=True) if waits])
        for connection, group in _by_connection(i for i, waits in zip(items, waiting, strict=True) if not waits):
            self._push(connection, group)
        return [item.answer for item in items]

    def shares(self, item: Item, engine: sa.Engine) -> bool:
        """Whether the job can be stored through a connection of this engine."""
        driver = self._connections.driver(item.connection)
        return isinstance(driver, Transactional) and driver.shares(engine)

    def within(self, connection: sa.Connection, items: Sequence[Item]) -> None:
        """Store the jobs in the app's own transaction, which is about to commit."""
        for name, group in _by_connection(items):
            driver = self._connections.driver(name)
            if not isinstance(driver, Transactional):
                raise CapabilityMissing(f"The connection {name!r} cannot store jobs in a transaction of the app.")
            driver.push_within(connection, [item.push for item in group])

    def committed(self, items: Sequence[Item]) -> None:
        """Tell of the jobs that were stored within a transaction, now that it has committed."""
        self._arrived(items, Status.PUSHED)

    def after(self, items: Sequence[Item]) -> None:
        """Store the jobs after their transaction has committed: every connection is tried before this raises."""
        failures: list[tuple[list[Item], Exception]] = []
        for connection, group in _by_connection(items):
            try:
                self._push(connection, group)
            except Exception as error:  # an inline job may raise anything, and the others must not suffer
                failures.append((group, error))
        if not failures:
            return
        if len(failures) == 1 and not isinstance(failures[0][1], ConnectionLost | StoreRefused):
            raise failures[0][1]
        raise _push_failed(failures) from failures[0][1]

    def discarded(self, items: Sequence[Item], reason: Reason) -> None:
        """Tell of the jobs that went away with their transaction."""
        for connection, group in _by_connection(items):
            for item in group:
                item.answer.status = Status.DISCARDED
            self._events(connection).discarded([item.push.envelope for item in group], reason=reason.value)

    def _item(self, job: Job, options: Options) -> Item:
        if not isinstance(job, Job):
            raise InvalidArgument(f"Only jobs can be dispatched, not {type(job).__name__}: give an instance of a Job.")
        check(job)
        settings = self._connections.settings(_first(options.connection, job.connection))
        push = self._encoded(job, settings, options)
        return Item(settings.name, push, Dispatched(push.envelope.id, Status.PUSHED), bool(job.sensitive))

    def _encoded(self, job: Job, settings: ConnectionSettings, options: Options) -> Push:
        queue = queue_name(_first(options.queue, job.queue, settings.queue))
        due = when(0 if options.delay is None else options.delay, what="delay")
        identity = new_id() if options.id is None else job_id(options.id)
        name, body = self._serializer(self._connections.driver(settings.name)).encode(job)
        return Push(Envelope(identity, name, queue, body), due, front=options.front, retry_until=deadline(job))

    def _waits(self, session: Session | None, job: Job, item: Item, options: Options) -> bool:
        call = _first(options.after_commit, job.after_commit)
        default = self._connections.settings(item.connection).after_commit
        return transactions.waits(session, self, call=call, default=default)

    def _push(self, connection: str, items: Sequence[Item]) -> None:
        driver = self._connections.driver(connection)
        if driver.runs_inline:  # then dispatched comes before processed, as it does elsewhere
            self._arrived(items, Status.RAN)
        try:
            driver.push([item.push for item in items])
        except Exception:
            for item in items:
                item.answer.status = Status.FAILED
            raise
        if not driver.runs_inline:
            self._arrived(items, Status.PUSHED)

    def _arrived(self, items: Sequence[Item], status: Status) -> None:
        for item in items:
            item.answer.status = status
            due = item.push.due
            delay = due.seconds if isinstance(due, After) and due.seconds else None
            self._events(item.connection).dispatched(item.push.envelope, delay=delay)


def _push_failed(failures: Sequence[tuple[Sequence[Item], Exception]]) -> PushFailed:
    lost = [item for items, _ in failures for item in items]
    for item in lost:
        _log_for_recovery(item)
    causes = [error for _, error in failures]
    surely = all(getattr(error, "stored", Stored.NO) is Stored.NO for error in causes)
    names = ", ".join(f"{item.push.envelope.name} {item.push.envelope.id}" for item in lost[:20])
    more = f" and {len(lost) - 20} more" if len(lost) > 20 else ""
    return PushFailed(
        f"The transaction is committed, but {len(lost)} of its jobs {'are not' if surely else 'may not be'} stored: "
        f"{names}{more}. {causes[0]} Pushing them again is safe: jobs.driver().push(error.pushes); "
        "the log flask_jobs.recovery has them, too.",
        pushes=[item.push for item in lost],
        causes=causes,
    )


def _log_for_recovery(item: Item) -> None:
    """Write down what is needed to push the job again. A job with sensitive fields is only named."""
    envelope = item.push.envelope
    body = None if item.sensitive else envelope.body
    stored = {"connection": item.connection, "id": envelope.id, "name": envelope.name, "queue": envelope.queue}
    recovery.error("not stored after the commit: %s", json.dumps({**stored, "body": body}))


def _deferred(item: Item) -> Item:
    item.answer.status = Status.DEFERRED
    return replace(item, push=replace(item.push, deferred=True))


def _by_connection(items: Iterable[Item]) -> list[tuple[str, list[Item]]]:
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.connection, []).append(item)
    return list(groups.items())


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)
