"""The only way in: a job becomes an envelope, passes the transaction gate, and is pushed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from . import transactions
from .connections import Connections
from .delivering import Delivery
from .dispatched import Dispatched, Options, Status
from .driver import Driver, HoldsKeys, Transactional
from .enveloping import Enveloper, Target
from .errors import CapabilityMissing
from .events import Events
from .items import Item, answered, by_target, deferred, digest_of, id_of, wants_key
from .job import Job, require_job
from .ledger import Reason
from .pushes import Package, pushes_in
from .recovering import push_failed
from .serializer import Serializer
from .sessions import Sessions, named_session

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy.orm import Session


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
        self.delivery = Delivery(events)

    def dispatch(self, job: Job, options: Options) -> Dispatched:
        """Hand the job over, at once or with the commit of the transaction that it belongs to."""
        return self.dispatch_many([job], options)[0]

    def dispatch_many(self, jobs: Iterable[Job], options: Options) -> list[Dispatched]:
        """Hand the jobs over together, in order: one push for each connection.

        All are encoded before any is stored, and no job is kept when it is: a generator may make many.
        """
        wished = list(self._wished(jobs, options))
        # Looked for only now, because making the jobs may have been the first use of it.
        self.hand_over(self.session_for(options), wished, options)
        return [item.answer for _, item in wished]

    def push_again(self, packages: Iterable[Package], options: Options) -> list[Dispatched]:
        """Push what a `PushFailed` holds; what has been stored meanwhile is not stored again."""
        target = self.envelopes.target(None, options)
        items = [self.packed(target, package, Dispatched(id_of(package), Status.PUSHED), ()) for package in packages]
        self.delivery.push(items)
        return [item.answer for item in items]

    def packed(self, target: Target, package: Package, answer: Dispatched, jobs: Iterable[Job]) -> Item:
        """The package of these jobs with its answer, ready to be handed over."""
        if not isinstance(target.driver, HoldsKeys) and wants_key(package):
            raise CapabilityMissing(f"The driver of the connection {target.settings.name!r} holds no unique keys.")
        sensitive = any(job.sensitive for job in jobs)
        return Item(target.settings.name, target.driver, package, answer, sensitive)

    def hand_over(self, session: Session | None, wished: Iterable[tuple[bool | None, Item]], options: Options) -> None:
        """Push what need not wait, and let the rest wait for the session's commit.

        Each item comes with the `after_commit` of its job's class, None if that does not say.
        """
        at_once: list[Item] = []
        waiting: list[Item] = []
        waits: dict[bool, bool] = {}  # by what holds where the call does not say: nothing else differs between them
        for wish, item in wished:
            default = self._default(wish, item)
            if default not in waits:
                waits[default] = transactions.waits(session, self, call=options.after_commit, default=default)
            if not waits[default]:
                at_once.append(item)
            elif (holder := self._holder(session, item, waiting)) is not None:
                self.delivery.refuse(item, item.package, holder)
            else:
                waiting.append(deferred(item))
        if waiting:
            # A block that defers everything may stand before the first use of the session.
            transactions.defer(session or self._sessions().to_wait_for(), self, waiting)
        for group in by_target(at_once):
            self.delivery.push(group)

    def session_for(self, options: Options) -> Session | None:
        """The session that the call names, else the app's own of the current context, if there is one already."""
        return self._sessions().existing() if options.session is None else named_session(options.session)

    def shares(self, item: Item, engine: sa.Engine) -> bool:
        """Whether the job can be stored through a connection of this engine."""
        return isinstance(item.driver, Transactional) and item.driver.shares(engine)

    def within(self, connection: sa.Connection, items: Sequence[Item]) -> None:
        """Store the jobs in the app's own transaction, which is about to commit."""
        for group in by_target(items):
            first_one = group[0]
            if not isinstance(first_one.driver, Transactional):
                raise CapabilityMissing(
                    f"The connection {first_one.connection!r} cannot store jobs in a transaction of the app."
                )
            answers = iter(first_one.driver.push_within(connection, [item.package for item in group]))
            for item in group:
                told = answered(item.package)
                self.delivery.note(item, told, [next(answers) for _ in told])

    def committed(self, items: Sequence[Item]) -> None:
        """Tell of the jobs that were stored within a transaction, now that it has committed."""
        self.delivery.arrived(items, Status.PUSHED)

    def after(self, items: Sequence[Item]) -> None:
        """Store the jobs after their transaction has committed: every connection is tried before this raises."""
        lost: list[tuple[list[Item], Exception]] = []
        raised: list[Exception] = []
        for group in by_target(items):
            try:
                self.delivery.push(group)
            except Exception as error:  # an inline job may raise anything, and the others must not suffer
                if group[0].driver.runs_inline:
                    raised.append(error)
                else:
                    lost.append((group, error))
        if lost:
            raise push_failed(lost, raised) from lost[0][1]
        if raised:
            raise raised[0]

    def discarded(self, items: Sequence[Item], reason: Reason) -> None:
        """Tell of the jobs that went away with their transaction."""
        for group in by_target(items):
            for item in group:
                item.answer.status = Status.DISCARDED
            envelopes = [push.envelope for item in group for push in pushes_in(item.package)]
            self._events(group[0].connection).discarded(envelopes, reason=reason.value)

    def _wished(self, jobs: Iterable[Job], options: Options) -> Iterator[tuple[bool | None, Item]]:
        target: Target | None = None
        before: str | None = None
        for job in jobs:
            require_job(job)
            connection = job.connection
            if target is None or connection is not before:  # most are for the same one as the job before them
                target, before = self.envelopes.target(job, options), connection
            push = self.envelopes.push(job, target, options)
            yield job.after_commit, self.packed(target, push, Dispatched(push.envelope.id, Status.PUSHED), (job,))

    def _default(self, wish: bool | None, item: Item) -> bool:
        return bool(self._connections.settings(item.connection).after_commit if wish is None else wish)

    def _holder(self, session: Session | None, item: Item, waiting: Sequence[Item]) -> str | None:
        """Who holds the unique key of a job that is about to wait: one that waits before it, or one that is stored."""
        digest = digest_of(item)
        if digest is None:
            return None
        for other in [*transactions.waiting(session, self), *waiting]:
            if (other.connection, digest_of(other)) == (item.connection, digest):
                return answered(other.package)[0].envelope.id
        return item.driver.holder(digest) if isinstance(item.driver, HoldsKeys) else None
