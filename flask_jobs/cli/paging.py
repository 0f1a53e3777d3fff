"""Reading long lists a page at a time, and letting go of each page's bodies before the next one is read."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

from ..driver import Inspectable, StoresFailedJobs
from ..stored import FailedJob, State, StoredJob

T = TypeVar("T")

PAGE = 20
"""Jobs per page. A body may be a megabyte, so this bounds what is in memory at once."""


def stored_jobs(
    driver: Inspectable,
    queues: Sequence[str],
    *,
    state: State | None,
    after: str | None,
    limit: int,
    light: Callable[[StoredJob], dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    """Up to `limit` jobs of these queues by id; `light` makes something of each with its id and without its body."""
    each = [_of_queue(driver, queue, state, after, light) for queue in queues]
    return islice(heapq.merge(*each, key=itemgetter("id")), limit)


def failed_jobs(
    driver: StoresFailedJobs,
    *,
    queue: str | None,
    name: str | None,
    before: int | None,
    limit: int,
    light: Callable[[FailedJob], T],
) -> Iterator[T]:
    """Up to `limit` failed jobs, newest first; `light` makes something without the body of each."""
    while limit > 0:
        size = min(limit, PAGE)
        page = driver.failed(queue=queue, name=name, before=before, limit=size)
        if page:
            before = page[-1].position
        limit -= len(page)
        is_last = len(page) < size
        lightened = [light(job) for job in page]
        del page
        yield from lightened
        if is_last:
            return


def _of_queue(
    driver: Inspectable,
    queue: str,
    state: State | None,
    after: str | None,
    light: Callable[[StoredJob], dict[str, Any]],
) -> Iterator[dict[str, Any]]:
    while True:
        page = [light(job) for job in driver.jobs(queue, state=state, after=after, limit=PAGE)]
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1]["id"]
