"""When a worker process must go."""

from __future__ import annotations

import pytest

from flask_jobs.slate import LEFT, State, View
from flask_jobs.supervisor.verdicts import Kill, Rules, Watched, must_end, timed_out

from .views import running, view

RULES = Rules(retry_after=90.0, timeout=60.0)


def judge(
    lane: View,
    *,
    rules: Rules = RULES,
    now: float = 101.0,
    lease_began: float = 100.0,
    unchanged: float = 0.0,
    is_lost: bool = False,
    is_frozen: bool = False,
) -> Kill | None:
    return must_end(Watched(lane, now, lease_began, unchanged, is_lost, is_frozen), rules)


@pytest.mark.parametrize(
    ("retry_after", "margin"), [(1.0, 0.3), (3.0, 0.3), (10.0, 1.0), (20.0, 2.0), (90.0, 2.0), (3_600.0, 2.0)]
)
def test_f03_a_worker_is_ended_a_tenth_of_its_lease_before_its_end_within_bounds(
    retry_after: float, margin: float
) -> None:
    rules = Rules(retry_after=retry_after, timeout=0.0)
    ends = 100.0 + retry_after - margin

    assert rules.margin == pytest.approx(margin)
    assert judge(view(State.STARTED), rules=rules, now=ends - 0.01) is None
    assert judge(view(State.STARTED), rules=rules, now=ends + 0.01) is Kill.LEASE


@pytest.mark.parametrize("state", [State.ENTERED, State.STARTED])
def test_f03_a_worker_whose_lease_was_lost_is_ended_at_once(state: State) -> None:
    assert judge(view(state), is_lost=True) is Kill.LEASE


@pytest.mark.parametrize("state", [State.HELD, State.DONE, State.SKIPPED, State.SETTLED])
def test_a_lease_that_nothing_runs_on_ends_no_worker(state: State) -> None:
    assert judge(view(state), now=1_000.0, is_lost=True) is None


@pytest.mark.parametrize("state", [State.HELD, State.DONE, State.SKIPPED])
def test_f03_a_stopped_worker_is_ended_also_for_what_it_has_finished_or_not_begun(state: State) -> None:
    assert judge(view(state), now=187.9, is_frozen=True) is None
    assert judge(view(state, in_use=False), now=188.0, is_frozen=True) is Kill.LEASE
    assert judge(view(State.SETTLED), now=1_000.0, is_frozen=True) is None


def test_an_idle_lane_ends_no_worker_however_long_it_says_the_same() -> None:
    idle = view(State.STARTED, running=running(1.0), in_use=False)

    assert judge(idle, now=1_000.0, unchanged=1_000.0, is_lost=True) is None


def test_f16_a_job_has_two_seconds_beyond_its_limit() -> None:
    lane = view(State.STARTED, running=running(10.0))

    assert judge(lane, now=111.9) is None
    assert judge(lane, now=112.0) is Kill.TIMEOUT


def test_a_job_without_a_limit_runs_as_long_as_its_lease_is_renewed() -> None:
    lane = view(State.STARTED, running=running(0.0))

    assert judge(lane, now=100_000.0, lease_began=99_990.0, unchanged=99_000.0) is None


def test_a_job_within_its_limit_may_be_silent_for_longer_than_the_code_around_it() -> None:
    lane = view(State.STARTED, running=running(600.0))

    assert judge(lane, now=500.0, lease_began=490.0, unchanged=400.0) is None


def test_the_code_around_a_job_has_the_patience_of_the_worker() -> None:
    lane = view(State.DONE, running=running(LEFT))

    assert judge(lane, unchanged=64.9) is None
    assert judge(lane, unchanged=65.0) is Kill.HUNG
    assert judge(lane, rules=Rules(retry_after=90.0, timeout=0.0), unchanged=1_000.0) is None


@pytest.mark.parametrize(("timeout", "patience"), [(600.0, 605.0), (5.0, 65.0), (0.0, float("inf"))])
def test_the_loading_of_a_job_may_take_as_long_as_the_job_itself(timeout: float, patience: float) -> None:
    rules = Rules(retry_after=90.0, timeout=60.0, timeouts={"shop.greet": timeout})

    assert judge(view(State.ENTERED), rules=rules, unchanged=min(1e9, patience - 0.1)) is None
    assert patience == float("inf") or judge(view(State.ENTERED), rules=rules, unchanged=patience) is Kill.HUNG


def test_a_lost_lease_comes_before_a_time_limit() -> None:
    lane = view(State.STARTED, running=running(10.0))

    assert judge(lane, now=1_000.0) is Kill.LEASE


def test_only_what_is_entered_and_past_its_limit_has_timed_out() -> None:
    late = running(10.0)

    assert timed_out(view(State.STARTED, running=late), RULES, now=112.0)
    assert timed_out(view(State.ENTERED, running=late), RULES, now=112.0)
    assert not timed_out(view(State.STARTED, running=late), RULES, now=111.0)
    assert not timed_out(view(State.DONE, running=late), RULES, now=112.0)
    assert not timed_out(view(State.STARTED, running=running(0.0)), RULES, now=112.0)
    assert not timed_out(view(State.STARTED, running=running(LEFT)), RULES, now=112.0)
    assert not timed_out(view(State.STARTED, running=running(10.0, position=1)), RULES, now=112.0)
    assert not timed_out(view(State.STARTED), RULES, now=112.0)
