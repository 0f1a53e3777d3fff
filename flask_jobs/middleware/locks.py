"""How many jobs run at the same time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

from ..control import Guard, Run
from ..errors import InvalidArgument
from ..limits import MOST
from ..store import Holder, Taken
from ..validation import count
from ..validation import seconds as as_seconds
from .putting_back import Duration, PutsBack, at, current_run, key_of


class ConcurrencyLimit(PutsBack):
    """Lets at most `limit` jobs with this key run at the same time; another comes back after `release_after` seconds.

    With `release_after=None` or `drop` it ends quietly. The key is one of this kind of job, unless `shared`. A place
    lives exactly as long as the delivery that holds it; in a store that is not beside the job's own connection it is
    extended as long as the job runs, and outlives a killed worker by `expire_after` seconds at most.
    """

    kind = "concurrency"

    def __init__(
        self,
        key: object,
        limit: int,
        *,
        release_after: Duration | None = 5,
        shared: bool = False,
        expire_after: Duration | None = None,
        drop: bool = False,
        spend_attempt: bool | None = None,
        store: str | None = None,
    ) -> None:
        super().__init__(
            release_after=release_after,
            drop=drop or release_after is None,
            spend_attempt=spend_attempt,
            store=store,
        )
        self._key = key_of(key, what=type(self).__name__)
        self._is_shared = shared
        self._places = count(limit, what="limit")
        self._lasting: float | None = None
        if not 0 < self._places <= MOST:
            raise InvalidArgument(f"limit must be from 1 to {MOST}; a job that may never run is not dispatched.")
        if expire_after is not None:
            self._lasting = _more_than_none(expire_after)

    def shared(self) -> Self:
        """Share the key with all other kinds of jobs that share it."""
        changed = copy.copy(self)
        changed._is_shared = True
        return changed

    def expire_after(self, seconds: Duration) -> Self:
        """In a store that is not beside the job's connection, how long a lock outlives a worker that was killed."""
        changed = copy.copy(self)
        changed._lasting = _more_than_none(seconds)
        return changed

    def handle(self, job: Any, call_next: Callable[[], None]) -> None:
        """Run the job with a place of the key in its hands."""
        run = current_run()
        guard = run.guards.guard(self._store)
        key = f"{self.kind}/{self._key}" if self._is_shared else f"{self.kind}/{run.guards.name_of(job)}/{self._key}"
        holder = _holder(run, guard)
        lasting = guard.lasting if self._lasting is None else self._lasting
        answer = guard.store.acquire(key, holder, places=self._places, seconds=lasting)
        if isinstance(answer, Taken):
            self._put_back(0, self._reason(answer))
        run.afterwards.append(lambda: guard.store.release(key, holder))
        if not guard.is_beside:
            run.afterwards.append(_kept(run, guard, key, holder, lasting))
        call_next()

    def _reason(self, taken: Taken) -> str:
        held = f"held by job {taken.job_id} until that ends, or until {at(taken.until)} if its worker is gone"
        if self._places == 1:
            return f"the key {self._key!r} is {held}"
        return f"all {self._places} places of the key {self._key!r} are taken, one {held}"


class WithoutOverlapping(ConcurrencyLimit):
    """Lets one job with this key run at a time; another comes back after `release_after` seconds.

    All options are those of `ConcurrencyLimit`. Without a key it is one job of this kind at a time.
    """

    kind = "overlap"

    def __init__(
        self,
        key: object = "all",
        *,
        release_after: Duration | None = 5,
        shared: bool = False,
        expire_after: Duration | None = None,
        drop: bool = False,
        spend_attempt: bool | None = None,
        store: str | None = None,
    ) -> None:
        super().__init__(
            key,
            1,
            release_after=release_after,
            shared=shared,
            expire_after=expire_after,
            drop=drop,
            spend_attempt=spend_attempt,
            store=store,
        )


def _holder(run: Run, guard: Guard) -> Holder:
    reservation = run.reservation
    delivery = reservation if guard.is_beside else None
    return Holder(reservation.envelope.id, reservation.receipt, delivery)


def _kept(run: Run, guard: Guard, key: str, holder: Holder, seconds: float) -> Callable[[], None]:
    """Keep a lock alive that has an end of its own; gives what ends that."""
    what = f"The lock {key!r} of job {holder.job_id}"
    return run.guards.keep(what, lambda: guard.store.extend(key, holder, seconds=seconds), seconds=seconds)


def _more_than_none(seconds: Duration) -> float:
    lasting = as_seconds(seconds, what="expire_after")
    if lasting <= 0:
        raise InvalidArgument("expire_after must be more than 0 seconds: it is how long a lock lives.")
    return lasting
