"""A job that forks: the process that comes back out of the body is not a second worker."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from flask_jobs.job import Job
from flask_jobs.stored import Sizes

from ..support.bench import Bench

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench() as made:
        yield made


def nothing() -> None:
    pass


def exiting(code: object) -> Callable[[], None]:
    def leave() -> None:
        raise SystemExit(code)

    return leave


def raising() -> None:
    raise ValueError("boom")


@pytest.mark.parametrize(
    ("last", "code"),
    [(nothing, 0), (exiting(None), 0), (exiting(7), 7), (exiting("a complaint"), 1), (raising, 1)],
)
def test_a_forked_process_ends_with_the_body_and_its_parent_goes_on(
    bench: Bench, last: Callable[[], None], code: int
) -> None:
    ended: list[int] = []

    def fork(self: Job) -> None:
        child = os.fork()
        if not child:
            last()
            return
        ended.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    bench.knows("demo", fork)
    bench.store.add("demo")

    bench.work()

    assert ended == [code]
    assert bench.store.size("default") == Sizes()
    assert bench.signals() == ["job-processing", "job-processed"]
