"""The only way in: a job becomes an envelope, passes the transaction gate, and is pushed."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING, TypeVar

from . import transactions
from .config import ConnectionSettings
from .connections import Connections
from .dispatched import Dispatched, Options, Status
from .driver import Driver, Transactional
from .envelope import After, Envelope, Push, Pushed
from .errors import CapabilityMissing, PushFailed, Stored
from .events import Events
from .ids import new_id
from .job import Job, require_job
from .ledger import Reason
from .options import check, deadline
from .serializer import Serializer
from .sessions import Sessions, named_session
from .validation import job_id, queue_name, when

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy.orm import Session

T = TypeVar("T")

recovery = logging.getLogger("flask_jobs.recovery")


@dataclass(slots=True, eq=False)
class Item:
    """A job on its way to a driver, with the answer that its dispatcher holds.

    The driver is the one it was dispatched to, also if a fake stands in its place, or does no more, when the
    transaction commits. `repeated`: its id was stored before, so that nothing was added.
    """

    connection: str
    driver: Driver
    push: Push
    answer: Dispatched
    sensitive: bool
    repeated: bool = False


class Dispatcher:
    """Dispatches the jobs of one app; also what a transaction hands its jobs to when it ends."""

    def __init__(
        self,
        *,
        serializer: Callable[[Driver], Serializer],
        connections: Connections,
        sessions: Callable[[], Sessions],
        events: Callable[[str], Events],
        check: Callable[[Job], None],
    ) -> None:
        self._check = check
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
        session = self._session(options)
        items = [self._item(job, options) for job in jobs]
        waits = [self._waits(session, job, item, options) for job, item in zip(jobs, items, strict=True)]
        waiting = list(compress(items, waits))
        if waiting:
            # A block that defers everything may stand before the first use of the session.
            transactions.defer(session or self._sessions().to_wait_for(), self, [_deferred(item) for item in waiting])
        for group in _by_target(item for item, wait in zip(items, waits, strict=True) if not wait):
            self._push(group)
        return [item.answer for item in items]

    def shares(self, item: Item, engine: sa.Engine) -> bool:
        """Whether the job can be stored through a connection of this engine."""
        return isinstance(item.driver, Transactional) and item.driver.shares(engine)

    def within(self, connection: sa.Connection, items: Sequence[Item]) -> None:
        """Store the jobs in the app's own transaction, which is about to commit."""
        for group in _by_target(items):
            first = group[0]
            if not isinstance(first.driver, Transactional):
                raise CapabilityMissing(
                    f"The connection {first.connection!r} cannot store jobs in a transaction of the app."
                )
            _note_repeated(group, first.driver.push_within(connection, [item.push for item in group]))

    def committed(self, items: Sequence[Item]) -> None:
        """Tell of the jobs that were stored within a transaction, now that it has committed."""
        self._arrived(items, Status.PUSHED)

    def after(self, items: Sequence[Item]) -> None:
        """Store the jobs after their transaction has committed: every connection is tried before this raises."""
        lost: list[tuple[list[Item], Exception]] = []
        raised: list[Exception] = []
        for group in _by_target(items):
            try:
                self._push(group)
            except Exception as error:  # an inline job may raise anything, and the others must not suffer
                if group[0].driver.runs_inline:
                    raised.append(error)
                else:
                    lost.append((group, error))
        if lost:
            raise _push_failed(lost, raised) from lost[0][1]
        if raised:
            raise raised[0]

    def discarded(self, items: Sequence[Item], reason: Reason) -> None:
        """Tell of the jobs that went away with their transaction."""
        for group in _by_target(items):
            for item in group:
                item.answer.status = Status.DISCARDED
            self._events(group[0].connection).discarded([item.push.envelope for item in group], reason=reason.value)

    def _item(self, job: Job, options: Options) -> Item:
        require_job(job)
        check(job)
        self._check(job)
        settings = self._connections.settings(_first(options.connection, job.connection))
        driver = self._connections.driver(settings.name)
        push = self._encoded(job, driver, settings, options)
        return Item(settings.name, driver, push, Dispatched(push.envelope.id, Status.PUSHED), bool(job.sensitive))

    def _encoded(self, job: Job, driver: Driver, settings: ConnectionSettings, options: Options) -> Push:
        queue = queue_name(_first(options.queue, job.queue, settings.queue))
        due = when(0 if options.delay is None else options.delay, what="delay")
        identity = new_id() if options.id is None else job_id(options.id)
        name, body = self._serializer(driver).encode(job)
        return Push(Envelope(identity, name, queue, body), due, front=options.front, retry_until=deadline(job))

    def _session(self, options: Options) -> Session | None:
        if options.session is not None:
            return named_session(options.session)
        return self._sessions().existing()

    def _waits(self, session: Session | None, job: Job, item: Item, options: Options) -> bool:
        default = _first(job.after_commit, self._connections.settings(item.connection).after_commit)
        return transactions.waits(session, self, call=options.after_commit, default=bool(default))

    def _push(self, items: Sequence[Item]) -> None:
        driver, pushes = items[0].driver, [item.push for item in items]
        if driver.runs_inline:
            self._arrived(items, Status.RAN)  # before it runs: dispatched comes before processed, as elsewhere
            driver.push(pushes)
            return
        try:
            answers = driver.push(pushes)
        except Exception:
            for item in items:
                item.answer.status = Status.FAILED
            raise
        _note_repeated(items, answers)
        self._arrived(items, Status.PUSHED)

    def _arrived(self, items: Sequence[Item], status: Status) -> None:
        for item in items:
            item.answer.status = status
            if item.repeated:
                continue
            due = item.push.due
            delay = due.seconds if isinstance(due, After) and due.seconds else None
            self._events(item.connection).dispatched(item.push.envelope, delay=delay)


def _push_failed(failures: Sequence[tuple[Sequence[Item], Exception]], raised: Sequence[Exception]) -> PushFailed:
    lost = [item for items, _ in failures for item in items]
    for item in lost:
        _log_for_recovery(item)
    causes = [error for _, error in failures]
    surely = all(getattr(error, "stored", Stored.NO) is Stored.NO for error in causes)
    names = ", ".join(f"{item.push.envelope.name} {item.push.envelope.id}" for item in lost[:20])
    more = f" and {len(lost) - 20} more" if len(lost) > 20 else ""
    return PushFailed(
        f"The transaction is committed, but {len(lost)} of its jobs {'are not' if surely else 'may not be'} stored: "
        f"{names}{more}. {' '.join(map(str, causes))} Pushing them again is safe, for each is stored once by its id: "
        f"{_again(failures)}",
        pushes=[item.push for item in lost],
        causes=[*causes, *raised],
    )


def _again(failures: Sequence[tuple[Sequence[Item], Exception]]) -> str:
    if len(failures) > 1:
        return "the log flask_jobs.recovery names the connection of each and has its body."
    connection = failures[0][0][0].connection
    return f"jobs.driver({connection!r}).push(error.pushes); the log flask_jobs.recovery has them, too."


def _log_for_recovery(item: Item) -> None:
    """Write down what is needed to push the job again. A job with sensitive fields is only named."""
    envelope = item.push.envelope
    body = None if item.sensitive else envelope.body
    stored = {"connection": item.connection, "id": envelope.id, "name": envelope.name, "queue": envelope.queue}
    recovery.error("not stored after the commit: %s", json.dumps({**stored, "body": body}))


def _deferred(item: Item) -> Item:
    item.answer.status = Status.DEFERRED
    return replace(item, push=replace(item.push, deferred=True))


def _note_repeated(items: Sequence[Item], answers: Sequence[Pushed]) -> None:
    for item, answer in zip(items, answers, strict=True):
        item.repeated = not answer.stored


def _by_target(items: Iterable[Item]) -> list[list[Item]]:
    groups: dict[tuple[str, int], list[Item]] = {}
    for item in items:
        groups.setdefault((item.connection, id(item.driver)), []).append(item)
    return list(groups.values())


def _first(*values: T | None) -> T | None:
    return next((value for value in values if value is not None), None)
