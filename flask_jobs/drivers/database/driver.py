"""The driver that keeps jobs in database tables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property

import sqlalchemy as sa

from ... import clock as clocks
from ...driver import KeepsLocks, KeepsTables, Renewable, TracksProgress, Transactional
from ...envelope import Exchange, Popped, Progress, Reservation, Room, Settled, Settlement
from ...pushes import Package, Push, Pushed, pushes_in
from ...validation import queue_name
from .access import Access
from .dialects import Dialect, Mysql, Postgresql, Sqlite, Watch
from .failed import FailedJobs
from .following import Following
from .leasing import Leasing
from .mysql_popping import MysqlPopping
from .mysql_pushing import MysqlPushing
from .operators import Operators
from .packages import Packages
from .popping import Look, Popping
from .postgresql_exchange import OneTrip
from .postgresql_pushing import PostgresqlPushing
from .postgresql_settling import PostgresqlSettling
from .pushing import Pushing, check_names
from .remembering import Memory
from .retrying import repeated_if_overtaken
from .schema import create_sql
from .settling import Settling
from .store import DatabaseStore


class DatabaseDriver(
    Packages, Operators, FailedJobs, Renewable, TracksProgress, Transactional, KeepsLocks, KeepsTables
):
    """Keeps jobs in tables, on an engine of its own (see `open_engine` and `engine_beside`).

    `app_engine` is the app's engine for the same database, if it has one: jobs can then be pushed within the app's
    own transactions. `retry_after` is how long a lease lasts, `remember_ids` how long an id is known from its push.
    `clock` is "store" for the server's time or "local" for this process's.
    """

    def __init__(
        self,
        engine: sa.Engine,
        *,
        retry_after: float = 90.0,
        remember_ids: float = 3_600.0,
        clock: str = "store",
        wal: bool = True,
        notify: bool = True,
        app_engine: sa.Engine | None = None,
        owns_engine: bool = True,
    ) -> None:
        super().__init__(
            engine,
            retry_after=retry_after,
            remember_ids=remember_ids,
            clock=clock,
            wal=wal,
            notify=notify,
            owns_engine=owns_engine,
        )
        self.memory = Memory(self.compile, remember_ids=self.remember_ids, retry_after=self.retry_after)
        self._pushing = _pushing(self, self.memory)
        self.keys = self._pushing.keys
        self.following = Following(self.compile, self._pushing)
        popping, settling = _POPPING.get(type(self.dialect), Popping), _SETTLING.get(type(self.dialect), Settling)
        self._popping = popping(self.compile, retry_after=self.retry_after)
        self.settling = settling(self.compile, self.memory, self.bell, self.following)
        self._leasing = Leasing(self.compile, self.bell, retry_after=self.retry_after)
        self._one_trip = None
        if isinstance(self.dialect, Postgresql):
            self._one_trip = OneTrip(self, self.memory, self._popping, self.settling)
        self.has_one_writer = isinstance(self.dialect, Sqlite)
        self._notify = notify
        self._app_engine = app_engine
        self._found_nothing = True
        self._watching = threading.Lock()
        self._watch: Watch | None = None

    @repeated_if_overtaken
    def push(self, pushes: Sequence[Push]) -> list[Pushed]:
        """Store the jobs in one transaction, each once by its id."""
        check_names(pushes)
        if not pushes:
            return []
        if (stored := self._pushing.store_at_once(pushes)) is not None:
            return stored
        with self.writing() as transaction:
            return self._pushing.store(transaction, pushes)

    def push_within(self, connection: sa.Connection, packages: Sequence[Package]) -> list[Pushed]:
        """Store the jobs through the app's own connection: visible with its commit, or never."""
        for package in packages:
            check_names(pushes_in(package))
        if not packages:
            return []
        with self.within(connection) as transaction:
            return self.following.push(transaction, packages)

    def shares(self, engine: sa.Engine) -> bool:
        """Whether this is the app's engine that the driver stands beside."""
        # An engine with other execution options is another object on the same pool.
        return self._app_engine is not None and engine.pool is self._app_engine.pool

    def pop(self, queues: Sequence[str], token: str, room: Room) -> Popped:
        """Reserve what is due, by queue priority, in one transaction. An idle queue is only read."""
        names = [queue_name(queue) for queue in queues]
        if self._found_nothing:
            look = self._look(names)
            if not look.has_work:
                return look.popped()
        return self.exchange((), names, token, room).popped

    @repeated_if_overtaken
    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Settle deliveries, each whole or not at all, with what follows, and say which came too late."""
        if not settlements:
            return Settled()
        if self._one_trip is not None and self._one_trip.serves(settlements):
            return self._one_trip.settle(settlements)
        with self.writing() as transaction:
            return self.settling.settle(transaction, settlements)

    @repeated_if_overtaken
    def exchange(self, settlements: Sequence[Settlement], queues: Sequence[str], token: str, room: Room) -> Exchange:
        """Settle, then pop, in one transaction."""
        names = [queue_name(queue) for queue in queues]
        settled, popped = self._exchange(settlements, names, token, room)
        self._found_nothing = not popped.reservations
        return Exchange(settled, popped)

    @repeated_if_overtaken
    def recover(self, token: str, keep: Collection[str] = ()) -> int:
        """Put back, uncharged and at the head of their queues, what the pop with this token still holds."""
        with self.writing() as transaction:
            return self._leasing.recover(transaction, token, keep)

    def held(self, token: str) -> list[Reservation]:
        """What the pop with this token still holds, in the order of the pop, or of the renewals if there were any."""
        with self.reading() as transaction:
            return self._leasing.held(transaction, token, self.present(transaction))

    @repeated_if_overtaken
    def renew(self, reservations: Sequence[Reservation]) -> list[Reservation]:
        """Extend the live leases by `retry_after` from now and return those that are lost."""
        if not reservations:
            return []
        with self.writing() as transaction:
            return self._leasing.renew(transaction, reservations)

    @repeated_if_overtaken
    def note_progress(self, reservation: Reservation, progress: Progress) -> bool:
        """Store the latest progress beside the job; false when the reservation is stale."""
        with self.writing() as transaction:
            return self.settling.note_progress(transaction, reservation, progress)

    def wait(self, queues: Sequence[str], *, timeout: float, stopping: Callable[[], bool]) -> None:
        """Return when there is work in these queues, after `timeout` seconds, or soon after `stopping()`."""
        names = [queue_name(queue) for queue in queues]
        deadline = clocks.monotonic() + timeout
        with self.translating():
            self._wait(names, deadline, stopping)

    @cached_property
    def store(self) -> DatabaseStore:
        """Locks, limits and counts in tables beside those of the jobs."""
        return DatabaseStore(self)

    def create_sql(self) -> str:
        """The statements that make the tables on this database."""
        return create_sql(self.engine.dialect)

    def close(self) -> None:
        """Close the driver's own connections. It opens them again when it is used again."""
        with self._watching:
            watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()
        super().close()

    def _exchange(
        self, settlements: Sequence[Settlement], queues: Sequence[str], token: str, room: Room
    ) -> tuple[Settled, Popped]:
        settled = Settled()
        if self._one_trip is not None and self._one_trip.serves(settlements):
            settled, popped = self._one_trip.exchange(settlements, queues, token, room)
            if popped is not None:
                return settled, popped if popped.reservations else self._look(queues).popped()
            settlements = ()
        with self.writing(lasting=bool(settlements)) as transaction:
            if settlements:
                settled = self.settling.settle(transaction, settlements)
            return settled, self._popping.take(transaction, queues, token, room)

    def _look(self, queues: Sequence[str]) -> Look:
        if self._one_trip is not None:
            return self._one_trip.look(queues)
        with self.reading() as transaction:
            return self._popping.look(transaction.rows, queues)

    def _wait(self, queues: Sequence[str], deadline: float, stopping: Callable[[], bool]) -> None:
        watch, seen = self._watched(), None
        while not stopping() and (left := deadline - clocks.monotonic()) > 0:
            # Asked before the look, so that what is committed after the look changes the next count.
            count = watch.count(queues)
            if count is not None and count != seen:
                seen = count
                look = self._look(queues)
                if look.has_work:
                    # The pop that follows need not look once more.
                    self._found_nothing = False
                    return
                deadline = min(deadline, _due(look))
            watch.pause(left)

    def _watched(self) -> Watch:
        with self._watching:
            if self._watch is not None and not self._watch.is_in_place():
                self._watch.close()
                self._watch = None
            if self._watch is None:
                with self.lending():
                    self._watch = self.dialect.watch(self.engine, notify=self._notify)
            return self._watch


_POPPING: Mapping[type[Dialect], type[Popping]] = {Mysql: MysqlPopping}
_SETTLING: Mapping[type[Dialect], type[Settling]] = {Postgresql: PostgresqlSettling}


def _pushing(access: Access, memory: Memory) -> Pushing:
    match access.dialect:
        case Postgresql():
            return PostgresqlPushing(access, memory)
        case Mysql() as dialect:
            return MysqlPushing(access, memory, dialect)
        case _:
            return Pushing(access, memory)


# A server's clock may stand still for so long, and what is due must be due by it, too, when the wait ends.
_TICK = 0.001


def _due(look: Look) -> float:
    """When to look again, by the monotonic clock."""
    if look.next_due is None:
        return float("inf")
    return clocks.monotonic() + max(0.0, look.next_due - look.now) + _TICK
