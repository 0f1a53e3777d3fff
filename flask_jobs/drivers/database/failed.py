"""The failed jobs: pages, retry, and forgetting, in bounded steps that never leave a job in two places or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import sqlalchemy as sa

from ... import history
from ...driver import PORTION, StoresFailedJobs
from ...envelope import Counters, Hook
from ...stored import FailedJob
from ...validation import queue_name, seconds
from ..transitions import key_held, moved_deadline, retried
from .access import Access
from .ended import forgotten
from .following import Following
from .keys import ROUNDS, Keys, is_held, key_until_parameters, overtaken
from .packing import load_ties
from .retrying import repeated_if_overtaken
from .rows import FAILED_COLUMNS, FailedRow
from .schema import READY, failed, jobs
from .statements import Compiler, OwnTransaction, constant, limited, parameter
from .text import Parameters

_ID = parameter("job_id", sa.String)
_ROW = failed.c.seq == parameter("row_seq", sa.BigInteger)


class FailedJobs(Access, StoresFailedJobs):
    """Keeps failed jobs until they are retried or forgotten."""

    keys: Keys
    following: Following

    def failed(
        self, *, queue: str | None = None, name: str | None = None, before: int | None = None, limit: int = 50
    ) -> list[FailedJob]:
        """A page of failed jobs, newest first; `before` is the `position` of the last one of the page before."""
        wanted = {**_wanted(queue, name), "before": before if before is not None else _BEYOND_ALL, "limit": limit}
        with self.reading() as transaction:
            rows = transaction.rows(self._failed.page[_shape(queue, name)], wanted)
            return [FailedRow._make(row).failed_job() for row in rows]

    def find_failed(self, job_id: str) -> FailedJob | None:
        """The failed job with this id, or None."""
        with self.reading() as transaction:
            rows = transaction.rows(self._failed.find, {"job_id": job_id})
            return FailedRow._make(rows[0]).failed_job() if rows else None

    def count_failed(self, *, queue: str | None = None, name: str | None = None) -> int:
        """How many failed jobs are kept."""
        with self.reading() as transaction:
            return int(transaction.rows(self._failed.count[_shape(queue, name)], _wanted(queue, name))[0][0])

    def newest_failed(self) -> int:
        """The `position` of the newest failed job, 0 if there is none."""
        with self.reading() as transaction:
            return int(transaction.rows(self._failed.newest, {})[0][0])

    @repeated_if_overtaken
    def retry(self, job_id: str, new_id: str) -> bool:
        """Put the failed job back under `new_id`, in one step. False if there is no such failed job."""
        with self.writing() as transaction:
            found = [_Retried._make(row) for row in transaction.rows(self._failed.to_retry, {"job_id": job_id})]
            retried_ids, holder = self._put_back(transaction, found, lambda: new_id)
            if holder is not None:
                raise key_held(self._found(transaction, job_id).envelope, holder)
            return bool(retried_ids)

    @repeated_if_overtaken
    def retry_many(
        self,
        new_id: Callable[[], str],
        *,
        upto: int,
        queue: str | None = None,
        name: str | None = None,
        limit: int = PORTION,
    ) -> list[tuple[str, str]]:
        """Retry the oldest failed jobs with a `position` of at most `upto`, up to `limit` of them, in one step."""
        wanted = {**_wanted(queue, name), "upto": upto, "limit": min(limit, PORTION)}
        with self.writing() as transaction:
            # Of several with one key the first takes it, and the next look leaves the others out.
            while found := transaction.rows(self._failed.oldest[_shape(queue, name)], wanted):
                retried_ids, _ = self._put_back(transaction, [_Retried._make(row) for row in found], new_id)
                if retried_ids:
                    return retried_ids
            return []

    @repeated_if_overtaken
    def forget(self, job_id: str) -> bool:
        """Delete the failed job; says whether it was there."""
        with self.writing() as transaction:
            found = transaction.rows(self._failed.forgettable, {"job_id": job_id})
            if not found or not transaction.run(self._failed.forget, {"job_id": job_id}):
                return False
            self.following.tell(transaction, forgotten(found))
            return True

    @repeated_if_overtaken
    def flush(self, *, older_than: float | None = None, queue: str | None = None, limit: int = PORTION) -> int:
        """Delete up to `limit` failed jobs, those that failed at least `older_than` seconds ago; returns how many."""
        age = 0.0 if older_than is None else seconds(older_than, what="older_than")
        wanted = {**_wanted(queue, None), "age": age, "limit": min(limit, PORTION)}
        with self.writing() as transaction:
            found = transaction.rows(self._failed.old[older_than is not None, queue is not None], wanted)
            if not found:
                return 0
            flushed = transaction.run_many(self._failed.remove, [{"row_seq": seq} for seq, *_ in found])
            self.following.tell(transaction, forgotten([row[1:] for row in found]))
            return flushed

    @repeated_if_overtaken
    def note_hook(self, job_id: str, hook: Hook) -> None:
        """Record what became of the job's `failed()` method."""
        with self.writing() as transaction:
            transaction.run(self._failed.note_hook, {"job_id": job_id, "hook_now": hook.value})

    def _found(self, transaction: OwnTransaction, job_id: str) -> FailedJob:
        (row, *_) = transaction.rows(self._failed.find, {"job_id": job_id})
        return FailedRow._make(row).failed_job()

    def _put_back(
        self, transaction: OwnTransaction, found: Sequence[_Retried], new_id: Callable[[], str]
    ) -> tuple[list[tuple[str, str]], str | None]:
        """Retry these, but for those whose unique key is held; gives old and new ids, and the last holder met."""
        if not found:
            return [], None
        now = self.present(transaction)
        rows = [job.as_parameters(new_id(), now) for job in found]
        holders = self._insert_again(transaction, found, rows)
        retried_ = [(job, row) for job, row, holder in zip(found, rows, holders, strict=True) if holder is None]
        if retried_:
            transaction.run_many(self._failed.remove, [row for _, row in retried_])
            self.bell.ring(transaction, {job.queue for job, _ in retried_})
            self._follow(transaction, retried_)
        return [(job.id, str(row["new_id"])) for job, row in retried_], next(filter(None, holders), None)

    def _follow(self, transaction: OwnTransaction, retried_: Sequence[tuple[_Retried, Parameters]]) -> None:
        for job, row in retried_:
            ties = load_ties(job.ties, job_id=job.id)
            if ties is not None:
                self.following.chains.follow_retry(transaction, ties, str(row["new_id"]))

    def _insert_again(
        self, transaction: OwnTransaction, found: Sequence[_Retried], rows: Sequence[Parameters]
    ) -> list[str | None]:
        """Insert the jobs anew; for each the job that holds its unique key, for then it was not inserted."""
        if any(job.unique_key for job in found):
            return [self._insert_keyed(transaction, job, row) for job, row in zip(found, rows, strict=True)]
        transaction.run_many(self._failed.put_back, rows)
        return [None] * len(rows)

    def _insert_keyed(self, transaction: OwnTransaction, job: _Retried, row: Parameters) -> str | None:
        for _ in range(ROUNDS):
            if self.keys.insert(transaction, self._failed.put_back_keyed, row):
                return None
            holder = self.keys.holder_in_the_way(transaction, str(job.unique_key))
            if holder is not None:
                return holder
        raise overtaken(f"The retry of {job.id}")

    @cached_property
    def _failed(self) -> _Statements:
        return _Statements(self.compile)


_BEYOND_ALL = 2**63 - 1

_YES_NO = (False, True)

_Shape = tuple[bool, bool]


def _shape(queue: str | None, name: str | None) -> _Shape:
    return queue is not None, name is not None


def _wanted(queue: str | None, name: str | None) -> dict[str, object]:
    return {"queue": None if queue is None else queue_name(queue), "name": name}


class _Retried(NamedTuple):
    """What of a failed job is reckoned anew when it is retried; the rest is copied where it lies."""

    seq: int
    id: str
    queue: str
    attempts: int
    pushed_at: float
    retry_until: float | None
    history: str | None
    ties: str | None
    unique_key: str | None

    def as_parameters(self, new_id: str, now: float) -> dict[str, object]:
        entry = retried(self.id, Counters(self.attempts), now)
        return {
            "row_seq": self.seq,
            "new_id": new_id,
            "pushed_at": now,
            "retry_until": moved_deadline(self.retry_until, pushed_at=self.pushed_at, now=now),
            "past": history.dump(history.extended(history.load(self.history), entry)),
            **key_until_parameters(load_ties(self.ties, job_id=self.id)),
        }


class _Statements:
    def __init__(self, compile_: Compiler) -> None:
        retried_columns = [failed.c[name] for name in _Retried._fields]
        of_id = failed.c.id == _ID
        taking, holding = compile_.dialect.taking, compile_.dialect.holding
        by_id = sa.select(*retried_columns).where(of_id).order_by(failed.c.seq.desc())
        page = sa.select(*FAILED_COLUMNS).where(failed.c.seq < parameter("before", sa.BigInteger))
        is_old = failed.c.seq <= parameter("upto", sa.BigInteger)
        oldest = sa.select(*retried_columns).where(is_old, _key_is_free(compile_))
        self.page = _shapes(compile_, limited(page.order_by(failed.c.seq.desc())))
        self.count = _shapes(compile_, sa.select(sa.func.count()).select_from(failed))
        self.oldest = _shapes(compile_, taking(limited(oldest.order_by(failed.c.seq))))
        self.find = compile_(sa.select(*FAILED_COLUMNS).where(of_id).order_by(failed.c.seq.desc()))
        self.newest = compile_(sa.select(sa.func.coalesce(sa.func.max(failed.c.seq), constant(0))))
        self.to_retry = compile_(holding(by_id))
        self.forgettable = compile_(holding(sa.select(failed.c.id, failed.c.ties).where(of_id)))
        self.forget = compile_(sa.delete(failed).where(of_id))
        self.remove = compile_(sa.delete(failed).where(_ROW))
        self.note_hook = compile_(sa.update(failed).where(of_id).values(hook=parameter("hook_now", sa.String)))
        self.put_back = compile_(sa.insert(jobs).from_select(*_put_back()))
        names, rows = _put_back(unique_key=failed.c.unique_key, key_until=compile_.instant("key"))
        self.put_back_keyed = compile_(compile_.dialect.insert_unless_taken(jobs, names, rows))
        self.old = {
            (aged, queued): compile_(holding(_old(compile_, aged, queued))) for aged in _YES_NO for queued in _YES_NO
        }


def _shapes(compile_: Compiler, select: sa.Select[Any]) -> dict[_Shape, Any]:
    """The statement for all jobs, for those of a queue, of a name, and of both."""
    of_queue = failed.c.queue == parameter("queue", sa.String)
    of_name = failed.c.name == parameter("name", sa.String)
    return {
        (False, False): compile_(select),
        (True, False): compile_(select.where(of_queue)),
        (False, True): compile_(select.where(of_name)),
        (True, True): compile_(select.where(of_queue, of_name)),
    }


def _key_is_free(compile_: Compiler) -> sa.ColumnElement[bool]:
    holder = sa.select(jobs.c.seq).where(jobs.c.unique_key == failed.c.unique_key, is_held(compile_))
    # With an offset it is asked for each row, and not made out of a look through all jobs.
    holder = holder.limit(constant(1)).offset(constant(0))
    return sa.or_(failed.c.unique_key.is_(None), ~sa.exists(holder))


def _old(compile_: Compiler, aged: bool, queued: bool) -> sa.Select[Any]:
    """The oldest failed jobs, in an order that an index has."""
    old = limited(sa.select(failed.c.seq, failed.c.id, failed.c.ties))
    if queued:
        old = old.where(failed.c.queue == parameter("queue", sa.String))
    if not aged:
        return old
    return old.where(failed.c.failed_at <= compile_.now - parameter("age", sa.Double))


def _put_back(**more: sa.ColumnElement[Any]) -> tuple[list[str], sa.Select[Any]]:
    """The columns of a job that is retried, and where their values come from."""
    values: dict[str, sa.ColumnElement[Any]] = {
        "id": parameter("new_id", sa.String),
        "name": failed.c.name,
        "queue": failed.c.queue,
        "body": failed.c.body,
        "state": constant(READY),
        "at": sa.literal_column("0.0", sa.Double),
        "pushed_at": parameter("pushed_at", sa.Double),
        "retry_until": parameter("retry_until", sa.Double),
        "retried_from": failed.c.id,
        "history": parameter("past", sa.Text),
        "ties": failed.c.ties,
        **more,
    }
    return list(values), sa.select(*values.values()).where(_ROW)
