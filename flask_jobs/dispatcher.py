"""The only way in: a job becomes an envelope, passes the transaction gate, and is pushed."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from . import batches, transactions
from .connections import Connections
from .control import running
from .dispatched import Dispatched, Options, Status
from .driver import Driver, HoldsKeys, RunsBatches, RunsChains, RunsInline, Transactional
from .envelope import After, BatchPush, ChainPush, Package, Push, Pushed, Role, pushes_in
from .enveloping import Enveloper, Target, first
from .errors import CapabilityMissing, InvalidArgument, PushFailed, Stored, StoreRefused
from .events import Events
from .job import Job, require_job
from .ledger import Reason
from .serializer import Serializer
from .sessions import Sessions, named_session

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy.orm import Session

recovery = logging.getLogger("flask_jobs.recovery")

Refusal = Callable[[str, Push, str], None]
"""Told the connection, the job that was dropped, and the id of the one that holds its unique key."""


@dataclass(slots=True, eq=False)
class Item:
    """A job, chain or batch on its way to a driver, with the answer that its dispatcher holds.

    The driver is the one it was dispatched to, also if a fake stands in its place, or does no more, when the
    transaction commits. `stored` are the jobs of it that were added, as far as that is known.
    """

    connection: str
    driver: Driver
    package: Package
    answer: Dispatched
    sensitive: bool
    stored: Sequence[Push] = field(default=())


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
        self._connections = connections
        self._sessions = sessions
        self._events = events
        self.envelopes = Enveloper(connections.config, connections.driver, serializer, check)
        self._refusals: list[Refusal] = []

    def dispatch(self, job: Job, options: Options) -> Dispatched:
        """Hand the job over, at once or with the commit of the transaction that it belongs to."""
        return self.dispatch_many([job], options)[0]

    def dispatch_many(self, jobs: Iterable[Job], options: Options) -> list[Dispatched]:
        """Hand the jobs over together, in order: one push for each connection."""
        session = self._session(options)
        pairs = [(job, self._item(job, options)) for job in jobs]
        self._hand_over(session, pairs, options)
        return [item.answer for _, item in pairs]

    def chain(self, jobs: Sequence[Job], catch: Job | None, options: Options) -> Dispatched:
        """Hand a chain over, whose links are to run one after the other."""
        jobs = _listed(jobs, "A chain")
        target = self._workflow_target([*jobs, catch], options)
        if not isinstance(target.driver, RunsChains):
            raise CapabilityMissing(f"The driver of the connection {target.settings.name!r} runs no chains.")
        chain = self.envelopes.chain(jobs, catch, target, options)
        answer = Dispatched(chain.links[0].envelope.id, Status.PUSHED, chain=chain.id)
        item = self._packed(target, chain, answer, jobs)
        self._hand_over(self._session(options), [(jobs[0], item)], options)
        return answer

    def batch(
        self,
        jobs: Iterable[Job],
        callbacks: Mapping[Role, Job | None],
        options: Options,
        *,
        name: str,
        allow_failures: bool,
    ) -> batches.Batch:
        """Hand a batch over."""
        if not isinstance(name, str) or not name.isprintable():
            raise InvalidArgument(f"The name of a batch is a line of text, not {name!r}.")
        if not isinstance(allow_failures, bool):
            raise InvalidArgument(f"allow_failures must be True or False, not {allow_failures!r}.")
        jobs = _listed(jobs, "A batch")
        target = self._workflow_target([*jobs, *callbacks.values()], options)
        driver = _runs_batches(target)
        batch = self.envelopes.batch(jobs, callbacks, target, options, name=name, allow_failures=allow_failures)
        answer = Dispatched(batch.id, Status.PUSHED)
        item = self._packed(target, batch, answer, jobs)
        self._hand_over(self._session(options), [(jobs[0] if jobs else None, item)], options)
        return self._batch(target, driver, answer)

    def find_batch(self, batch_id: str, options: Options) -> batches.Batch | None:
        """The batch with this id, if it is stored."""
        target = self.envelopes.target(None, options)
        driver = target.driver
        if not isinstance(driver, RunsBatches) or driver.batch(batch_id) is None:
            return None
        return self._batch(target, driver, Dispatched(batch_id, Status.PUSHED))

    def add_to_batch(self, batch_id: str, jobs: Iterable[Job], options: Options) -> int:
        """Push more members into a batch at once; how many were stored."""
        target = self.envelopes.target(None, options)
        members = self.envelopes.members(jobs, batch_id, target, options)
        item = self._packed(target, BatchPush(batch_id, members), Dispatched(batch_id, Status.PUSHED), ())
        adding = running.get(None)
        by = None if adding is None else adding.id
        answers = _runs_batches(target).add_to_batch(batch_id, members, by=by)
        if answers is None:
            raise InvalidArgument(f"Nothing can be added to the batch {batch_id}: it has finished, or there is none.")
        self._note(item, members, answers)
        self._arrived([item], Status.PUSHED)
        _run_here([item])
        return len(item.stored)

    def push_again(self, packages: Iterable[Package], options: Options) -> list[Dispatched]:
        """Push what a `PushFailed` holds; what has been stored meanwhile is not stored again."""
        target = self.envelopes.target(None, options)
        items = [self._packed(target, package, Dispatched(_id_of(package), Status.PUSHED), ()) for package in packages]
        self._push(items)
        return [item.answer for item in items]

    @contextmanager
    def refusing(self, tell: Refusal) -> Iterator[None]:
        """Within the block, `tell` hears of each job that is dropped for another one. Blocks nest."""
        self._refusals.append(tell)
        try:
            yield
        finally:
            self._refusals.remove(tell)

    def shares(self, item: Item, engine: sa.Engine) -> bool:
        """Whether the job can be stored through a connection of this engine."""
        return isinstance(item.driver, Transactional) and item.driver.shares(engine)

    def within(self, connection: sa.Connection, items: Sequence[Item]) -> None:
        """Store the jobs in the app's own transaction, which is about to commit."""
        for group in _by_target(items):
            first_one = group[0]
            if not isinstance(first_one.driver, Transactional):
                raise CapabilityMissing(
                    f"The connection {first_one.connection!r} cannot store jobs in a transaction of the app."
                )
            answers = iter(first_one.driver.push_within(connection, [item.package for item in group]))
            for item in group:
                told = _told(item.package)
                self._note(item, told, [next(answers) for _ in told])

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
            envelopes = [push.envelope for item in group for push in pushes_in(item.package)]
            self._events(group[0].connection).discarded(envelopes, reason=reason.value)

    def _item(self, job: Job, options: Options) -> Item:
        require_job(job)
        target = self.envelopes.target(job, options)
        push = self.envelopes.push(job, target, options)
        return self._packed(target, push, Dispatched(push.envelope.id, Status.PUSHED), [job])

    def _packed(self, target: Target, package: Package, answer: Dispatched, jobs: Iterable[Job]) -> Item:
        if any(map(_has_key, pushes_in(package))) and not isinstance(target.driver, HoldsKeys):
            raise CapabilityMissing(f"The driver of the connection {target.settings.name!r} holds no unique keys.")
        sensitive = any(job.sensitive for job in jobs)
        return Item(target.settings.name, target.driver, package, answer, sensitive)

    def _workflow_target(self, jobs: Iterable[Job | None], options: Options) -> Target:
        wanted = [job for job in jobs if job is not None]
        for job in wanted:
            require_job(job)
        return self.envelopes.target(next((job for job in wanted if job.connection is not None), None), options)

    def _batch(self, target: Target, driver: RunsBatches, answer: Dispatched) -> batches.Batch:
        def add(batch_id: str, jobs: Iterable[Job]) -> int:
            return self.add_to_batch(batch_id, jobs, Options(connection=target.settings.name))

        return batches.Batch(answer, driver, add, partial(self._require_room, target.driver))

    def _require_room(self, driver: Driver) -> None:
        """Raise `StoreRefused` where a step of the driver's own would wait for the caller's transaction in vain."""
        session = self._sessions().existing()
        if session is None or not isinstance(driver, Transactional) or not driver.has_one_writer:
            return
        if any(driver.shares(engine) for engine in transactions.written(session)):
            raise StoreRefused(
                "The current transaction has written to the SQLite database that the batch is stored in, where one "
                "transaction writes at a time: commit it first. Nothing was changed."
            )

    def _session(self, options: Options) -> Session | None:
        if options.session is not None:
            return named_session(options.session)
        return self._sessions().existing()

    def _hand_over(self, session: Session | None, pairs: Sequence[tuple[Job | None, Item]], options: Options) -> None:
        """Push what need not wait, and let the rest wait for the session's commit."""
        at_once: list[Item] = []
        waiting: list[Item] = []
        for job, item in pairs:
            if not self._waits(session, job, item, options):
                at_once.append(item)
            elif (holder := self._holder(session, item, waiting)) is not None:
                self._refuse(item, item.package, holder)
            else:
                waiting.append(_deferred(item))
        if waiting:
            # A block that defers everything may stand before the first use of the session.
            transactions.defer(session or self._sessions().to_wait_for(), self, waiting)
        for group in _by_target(at_once):
            self._push(group)

    def _waits(self, session: Session | None, job: Job | None, item: Item, options: Options) -> bool:
        of_class = None if job is None else job.after_commit
        default = first(of_class, self._connections.settings(item.connection).after_commit)
        return transactions.waits(session, self, call=options.after_commit, default=bool(default))

    def _holder(self, session: Session | None, item: Item, waiting: Sequence[Item]) -> str | None:
        """Who holds the unique key of a job that is about to wait: one that waits before it, or one that is stored."""
        digest = _digest(item)
        if digest is None:
            return None
        for other in [*transactions.waiting(session, self), *waiting]:
            if (other.connection, _digest(other)) == (item.connection, digest):
                return _told(other.package)[0].envelope.id
        return item.driver.holder(digest) if isinstance(item.driver, HoldsKeys) else None

    def _push(self, items: Sequence[Item]) -> None:
        """Push to one driver, in order; what was stored when something goes wrong has arrived."""
        driver = items[0].driver
        left = list(items)
        try:
            for kind, alike in groupby(items, key=lambda item: type(item.package)):
                group = list(alike)
                self._push_alike(driver, kind, group)
                del left[: len(group)]
                self._arrived(group, Status.RAN if driver.runs_inline else Status.PUSHED)
        except Exception:
            for item in left:
                item.answer.status = Status.FAILED
            raise
        finally:
            _run_here(items)

    def _push_alike(self, driver: Driver, kind: type[Package], items: Sequence[Item]) -> None:
        """Push packages of one kind: single jobs all at once, chains and batches one by one."""
        if kind is Push:
            pushes = [item.package for item in items if isinstance(item.package, Push)]
            for item, push, answer in zip(items, pushes, driver.push(pushes), strict=True):
                self._note(item, [push], [answer])
            return
        for item in items:
            match item.package, driver:
                case ChainPush() as chain, RunsChains():
                    self._note(item, chain.links[:1], [driver.push_chain(chain)])
                case BatchPush() as batch, RunsBatches():
                    self._note(item, batch.members, driver.push_batch(batch))

    def _note(self, item: Item, pushes: Sequence[Push], answers: Sequence[Pushed]) -> None:
        """Keep in mind what was stored, and tell of what was dropped for another job that holds its key."""
        pairs = list(zip(pushes, answers, strict=True))
        item.stored = [push for push, answer in pairs if answer.stored]
        for push, answer in pairs:
            if answer.holder is not None:
                self._refuse(item, push, answer.holder)

    def _refuse(self, item: Item, package: Package, holder: str) -> None:
        dropped = _told(package)[0]
        if not isinstance(item.package, BatchPush):
            item.answer.status, item.answer.holder = Status.DUPLICATE, holder
        answered = not dropped.deferred
        self._events(item.connection).dropped(dropped.envelope, holder=holder, answered=answered)
        for tell in self._refusals[-1:]:
            tell(item.connection, dropped, holder)

    def _arrived(self, items: Sequence[Item], status: Status) -> None:
        for item in items:
            if item.answer:
                item.answer.status = status
            for push in item.stored:
                due = push.due
                delay = due.seconds if isinstance(due, After) and due.seconds else None
                self._events(item.connection).dispatched(push.envelope, delay=delay)


def _run_here(items: Sequence[Item]) -> None:
    """Run what was stored, where there is no worker to do it."""
    driver = items[0].driver
    if isinstance(driver, RunsInline):
        # The callbacks of an empty batch are due at once.
        groups = [pushes_in(item.package) if isinstance(item.package, BatchPush) else item.stored for item in items]
        driver.run([push.envelope.id for group in groups for push in group])


def _runs_batches(target: Target) -> RunsBatches:
    if not isinstance(target.driver, RunsBatches):
        raise CapabilityMissing(f"The driver of the connection {target.settings.name!r} runs no batches.")
    return target.driver


def _listed(jobs: Iterable[Job], what: str) -> list[Job]:
    if not isinstance(jobs, Iterable):
        raise InvalidArgument(f"{what} takes a list of jobs, not an object of type {type(jobs).__name__}.")
    return list(jobs)


def _has_key(push: Push) -> bool:
    return push.envelope.ties is not None and push.envelope.ties.key is not None


def _push_failed(failures: Sequence[tuple[Sequence[Item], Exception]], raised: Sequence[Exception]) -> PushFailed:
    lost = [item for items, _ in failures for item in items if item.answer.status is Status.FAILED]
    for item in lost:
        _log_for_recovery(item)
    causes = [error for _, error in failures]
    surely = all(getattr(error, "stored", Stored.NO) is Stored.NO for error in causes)
    pushes = [push for item in lost for push in pushes_in(item.package)]
    names = ", ".join(f"{push.envelope.name} {push.envelope.id}" for push in pushes[:20])
    more = f" and {len(pushes) - 20} more" if len(pushes) > 20 else ""
    return PushFailed(
        f"The transaction is committed, but {len(pushes)} of its jobs {'are not' if surely else 'may not be'} stored: "
        f"{names}{more}. {' '.join(map(str, causes))} Pushing them again is safe, for each is stored once by its id: "
        f"{_again(failures)}",
        packages=[item.package for item in lost],
        ids=[item.answer.id for item in lost],
        causes=[*causes, *raised],
    )


def _again(failures: Sequence[tuple[Sequence[Item], Exception]]) -> str:
    if len(failures) > 1:
        return "the log flask_jobs.recovery names the connection of each and has its body."
    connection = failures[0][0][0].connection
    return f"jobs.push_again(error, connection={connection!r}); the log flask_jobs.recovery has them, too."


def _log_for_recovery(item: Item) -> None:
    """Write down what is needed to push the jobs again. A job with sensitive fields is only named."""
    for push in pushes_in(item.package):
        envelope = push.envelope
        stored = {"connection": item.connection, "id": envelope.id, "name": envelope.name, "queue": envelope.queue}
        ties = {} if envelope.ties is None else {"ties": asdict(envelope.ties)}
        body = None if item.sensitive else envelope.body
        recovery.error("not stored after the commit: %s", json.dumps({**stored, **ties, "body": body}))


def _deferred(item: Item) -> Item:
    """The item and its answer, as one that waits for a commit."""
    item.answer.status = Status.DEFERRED
    match item.package:
        case Push() as push:
            package: Package = replace(push, deferred=True)
        case ChainPush() as chain:
            package = replace(chain, links=(replace(chain.links[0], deferred=True), *chain.links[1:]))
        case BatchPush() as batch:
            package = replace(batch, members=tuple(replace(push, deferred=True) for push in batch.members))
    return replace(item, package=package)


def _told(package: Package) -> Sequence[Push]:
    """The jobs that a driver answers for: of a chain the first link, of a batch each member."""
    match package:
        case Push():
            return [package]
        case ChainPush():
            return package.links[:1]
        case BatchPush():
            return package.members


def _id_of(package: Package) -> str:
    return package.id if isinstance(package, BatchPush) else _told(package)[0].envelope.id


def _digest(item: Item) -> str | None:
    """The unique key that the item takes when it is pushed; a member of a batch waits without one."""
    ties = None if isinstance(item.package, BatchPush) else _told(item.package)[0].envelope.ties
    return None if ties is None or ties.key is None else ties.key.digest


def _by_target(items: Iterable[Item]) -> list[list[Item]]:
    groups: dict[tuple[str, int], list[Item]] = {}
    for item in items:
        groups.setdefault((item.connection, id(item.driver)), []).append(item)
    return list(groups.values())
