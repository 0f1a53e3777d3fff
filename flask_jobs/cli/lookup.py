"""What an id names: a job, wherever it is, a chain, or a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ..driver import RunsBatches, RunsChains, StoresFailedJobs
from ..stored import FailedJob, StoredBatch, StoredChain, StoredJob
from . import documents, exit_codes, parameters
from .group import complain
from .paging import failed_jobs, stored_jobs
from .target import Target

LOOKED_AT = 1_000
"""How many jobs are looked at to find the one that repeats another, or follows from it."""

# Nothing is stored of a job that was dropped: whoever dispatches one job a thousand times costs its holder nothing.
_DROPPED = (
    " If it was dropped as a duplicate, the log of flask_jobs.lifecycle (level INFO) says for which job: look for "
    "[job:{}] there."
)

AnyJob = StoredJob | FailedJob
Found = AnyJob | StoredChain | StoredBatch


def find(target: Target, given: str) -> Found:
    """What has this id; where nothing has, the command ends and says what is known."""
    id_ = parameters.canonical(given)
    found = None if id_ is None else find_job(target, id_) or _find_chain(target, id_) or _find_batch(target, id_)
    if found is None:
        complain(_absence(target, given, id_))
        raise click.exceptions.Exit(exit_codes.ERROR)
    return found


def find_job(target: Target, job_id: str) -> AnyJob | None:
    """The job with this id, waiting, running or failed."""
    driver = target.inspectable()
    return driver.find(job_id) or (driver.find_failed(job_id) if isinstance(driver, StoresFailedJobs) else None)


def chain_of(target: Target, job: AnyJob) -> StoredChain | None:
    """The chain of which the job is a link."""
    ties = job.envelope.ties
    return None if ties is None or ties.chain is None or ties.is_callback else _find_chain(target, ties.chain)


def catch_of(target: Target, chain: StoredChain) -> AnyJob | None:
    """What the failure of the chain has brought about, unless it has ended."""
    of_it = {"chain": chain.id, "link": "catch"}
    found = next((job["id"] for job in _younger(target, chain.id) if of_it.items() <= job.items()), None)
    return None if found is None else find_job(target, found)


def _find_chain(target: Target, id_: str) -> StoredChain | None:
    return target.driver.chain(id_) if isinstance(target.driver, RunsChains) else None


def _find_batch(target: Target, id_: str) -> StoredBatch | None:
    return target.driver.batch(id_) if isinstance(target.driver, RunsBatches) else None


def _absence(target: Target, given: str, id_: str | None) -> str:
    retried = retried_as(target, id_)
    why = retried or ": it has ended, or it never was here"
    dropped = "" if id_ is None or retried else _DROPPED.format(id_)
    return f"There is no job {given!r} on connection {target.name!r}{why}.{dropped}"


def retried_as(target: Target, id_: str | None) -> str:
    """The end of a sentence about a job that is not here: under which id it was retried; empty if it was not."""
    new = None if id_ is None else _repetition(target, id_)
    return "" if new is None else f": it had failed and was retried as {new}"


def _repetition(target: Target, old: str) -> str | None:
    """The id of the job that repeats this one, which names it. It is younger, and so are few others as a rule."""
    return next((job["id"] for job in _younger(target, old) if job["retried_from"] == old), None)


def _younger(target: Target, old: str) -> Iterator[dict[str, Any]]:
    driver, light = target.inspectable(), documents.stored_job
    yield from stored_jobs(driver, driver.queues(), state=None, after=old, limit=LOOKED_AT, light=light)
    if isinstance(driver, StoresFailedJobs):
        failed = documents.failed_job
        yield from failed_jobs(driver, queue=None, name=None, before=None, limit=LOOKED_AT, light=failed)
