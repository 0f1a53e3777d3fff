"""What follows a worker process that has ended."""

from __future__ import annotations

import pytest

from flask_jobs.supervisor.slots import Next, after
from flask_jobs.worker import Stop


@pytest.mark.parametrize("stop", [Stop.SIGNAL, Stop.INTERRUPTED, Stop.MEMORY, Stop.RECYCLED, Stop.TIMED_OUT])
def test_what_was_not_meant_for_the_supervisor_is_followed_by_a_fresh_process(stop: Stop) -> None:
    assert after(stop=stop, was_ready=True, lived=60, had_work=False) is Next.AT_ONCE


def test_a_worker_that_a_job_has_made_believe_it_is_an_orphan_is_followed_by_another() -> None:
    assert after(stop=Stop.ORPHANED, was_ready=True, lived=60, had_work=False) is Next.AT_ONCE


@pytest.mark.parametrize("stop", [Stop.ONCE, Stop.EMPTY, Stop.MAX_JOBS, Stop.MAX_TIME])
def test_a_limit_that_was_asked_for_ends_the_slot(stop: Stop) -> None:
    assert after(stop=stop, was_ready=True, lived=60, had_work=False) is Next.NOTHING
