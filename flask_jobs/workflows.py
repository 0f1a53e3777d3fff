"""Chains and batches on their way in: made of jobs, handed over, found again, added to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from . import batches, transactions
from .control import running
from .delivering import run_here
from .dispatched import Dispatched, Options, Status
from .dispatcher import Dispatcher
from .driver import Driver, RunsBatches, RunsChains, Transactional
from .enveloping import Target
from .errors import CapabilityMissing, InvalidArgument, StoreRefused
from .job import Job, require_job
from .pushes import BatchPush, Role


class Workflows:
    """Dispatches the chains and batches of one app, as its `Dispatcher` does single jobs."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._delivery = dispatcher.delivery
        self._envelopes = dispatcher.envelopes

    def chain(self, jobs: Sequence[Job], catch: Job | None, options: Options) -> Dispatched:
        """Hand a chain over, whose links are to run one after the other."""
        jobs = _listed(jobs, "A chain")
        target = self._workflow_target([*jobs, catch], options)
        if not isinstance(target.driver, RunsChains):
            raise CapabilityMissing(f"The driver of the connection {target.settings.name!r} runs no chains.")
        chain = self._envelopes.chain(jobs, catch, target, options)
        answer = Dispatched(chain.links[0].envelope.id, Status.PUSHED, chain=chain.id)
        item = self._dispatcher.packed(target, chain, answer, jobs)
        self._dispatcher.hand_over(self._dispatcher.session_for(options), [(jobs[0].after_commit, item)], options)
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
        batch = self._envelopes.batch(jobs, callbacks, target, options, name=name, allow_failures=allow_failures)
        answer = Dispatched(batch.id, Status.PUSHED)
        item = self._dispatcher.packed(target, batch, answer, jobs)
        wish = jobs[0].after_commit if jobs else None
        self._dispatcher.hand_over(self._dispatcher.session_for(options), [(wish, item)], options)
        return self._batch(target, driver, answer)

    def find_batch(self, batch_id: str, options: Options) -> batches.Batch | None:
        """The batch with this id, if it is stored."""
        target = self._envelopes.target(None, options)
        driver = target.driver
        if not isinstance(driver, RunsBatches) or driver.batch(batch_id) is None:
            return None
        return self._batch(target, driver, Dispatched(batch_id, Status.PUSHED))

    def add_to_batch(self, batch_id: str, jobs: Iterable[Job], options: Options) -> int:
        """Push more members into a batch at once; how many were stored."""
        target = self._envelopes.target(None, options)
        members = self._envelopes.members(jobs, batch_id, target, options)
        item = self._dispatcher.packed(target, BatchPush(batch_id, members), Dispatched(batch_id, Status.PUSHED), ())
        adding = running.get(None)
        by = None if adding is None else adding.id
        answers = _runs_batches(target).add_to_batch(batch_id, members, by=by)
        if answers is None:
            raise InvalidArgument(f"Nothing can be added to the batch {batch_id}: it has finished, or there is none.")
        self._delivery.note(item, members, answers)
        self._delivery.arrived([item], Status.PUSHED)
        run_here([item])
        return len(item.stored)

    def _workflow_target(self, jobs: Iterable[Job | None], options: Options) -> Target:
        wanted = [job for job in jobs if job is not None]
        for job in wanted:
            require_job(job)
        return self._envelopes.target(next((job for job in wanted if job.connection is not None), None), options)

    def _batch(self, target: Target, driver: RunsBatches, answer: Dispatched) -> batches.Batch:
        def add(batch_id: str, jobs: Iterable[Job]) -> int:
            return self.add_to_batch(batch_id, jobs, Options(connection=target.settings.name))

        return batches.Batch(answer, driver, add, partial(self._require_room, target.driver))

    def _require_room(self, driver: Driver) -> None:
        """Raise `StoreRefused` where a step of the driver's own would wait for the caller's transaction in vain."""
        session = self._dispatcher.session_for(Options())
        if session is None or not isinstance(driver, Transactional) or not driver.has_one_writer:
            return
        if any(driver.shares(engine) for engine in transactions.written(session)):
            raise StoreRefused(
                "The current transaction has written to the SQLite database that the batch is stored in, where one "
                "transaction writes at a time: commit it first. Nothing was changed."
            )


def _runs_batches(target: Target) -> RunsBatches:
    if not isinstance(target.driver, RunsBatches):
        raise CapabilityMissing(f"The driver of the connection {target.settings.name!r} runs no batches.")
    return target.driver


def _listed(jobs: Iterable[Job], what: str) -> list[Job]:
    if not isinstance(jobs, Iterable):
        raise InvalidArgument(f"{what} takes a list of jobs, not an object of type {type(jobs).__name__}.")
    return list(jobs)
