"""What follows in a slot whose process has ended."""

from __future__ import annotations

import pytest

from flask_jobs.supervisor.slots import Next, Slot, after
from flask_jobs.worker.settings import Stop


@pytest.mark.parametrize(
    ("was_ready", "lived", "had_work", "expected"),
    [
        (True, 60.0, False, Next.AT_ONCE),
        (True, 0.1, True, Next.AT_ONCE),
        (True, 0.1, False, Next.LATER),
        (False, 0.1, False, Next.LATER),
        (False, 60.0, False, Next.LATER),
    ],
)
def test_a_worker_that_died_is_replaced_at_once_unless_it_may_die_again_with_no_job_to_blame(
    was_ready: bool, lived: float, had_work: bool, expected: Next
) -> None:
    assert after(stop=None, was_ready=was_ready, lived=lived, had_work=had_work) is expected


@pytest.mark.parametrize("stop", list(Stop))
def test_a_worker_that_said_why_it_leaves_is_replaced_if_its_place_is_to_be_taken(stop: Stop) -> None:
    goes_on = {Stop.MEMORY, Stop.RECYCLED, Stop.TIMED_OUT, Stop.SIGNAL, Stop.INTERRUPTED, Stop.ORPHANED}

    follows = after(stop=stop, was_ready=True, lived=0.1, had_work=False)

    assert follows is (Next.AT_ONCE if stop in goes_on else Next.NOTHING)


def test_f18_pauses_after_instant_deaths_grow_to_half_a_minute_and_a_good_life_makes_them_short_again() -> None:
    slot = Slot(1)
    pauses = []
    for _ in range(12):
        slot.follow(Next.LATER, 100.0)
        pauses.append(slot.not_before - 100.0)
    slot.follow(Next.AT_ONCE, 200.0)
    at_once = slot.not_before
    slot.follow(Next.LATER, 300.0)

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, *[30.0] * 6]
    assert at_once == 200.0
    assert slot.not_before == 300.5


def test_a_slot_whose_worker_was_to_end_is_over() -> None:
    slot = Slot(1)

    slot.follow(Next.NOTHING, 100.0)

    assert slot.is_over
