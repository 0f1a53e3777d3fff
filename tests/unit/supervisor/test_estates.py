"""What is said of the jobs of a dead worker."""

from __future__ import annotations

import pytest

from flask_jobs.control import JobTimeout
from flask_jobs.errors import WorkerDied
from flask_jobs.outcome import Died, Done, Interrupted, Outcome, Skipped, TimedOut
from flask_jobs.slate import State, View
from flask_jobs.supervisor.undertaker import Estate

from .views import running, view


def estate(*lanes: View, on_purpose: bool = False, lost_lease: bool = False, timed_out: tuple[int, ...] = ()) -> Estate:
    return Estate(lanes, "was ended by signal 9 (SIGKILL)", on_purpose, lost_lease, frozenset(timed_out), 130.0)


def judged(lane: View, *, on_purpose: bool = False, timed_out: tuple[int, ...] = ()) -> Outcome | None:
    return estate(lane, on_purpose=on_purpose, timed_out=timed_out).judged(lane, lane.held[0])


@pytest.mark.parametrize("on_purpose", [False, True])
def test_what_was_not_taken_up_goes_back_without_a_word(on_purpose: bool) -> None:
    assert judged(view(State.HELD), on_purpose=on_purpose) is None


@pytest.mark.parametrize("on_purpose", [False, True])
@pytest.mark.parametrize("timed_out", [(), (0,)])
@pytest.mark.parametrize(("state", "kind"), [(State.DONE, Done), (State.SKIPPED, Skipped)])
def test_what_was_finished_is_finished_however_its_worker_died(
    state: State, kind: type[Outcome], on_purpose: bool, timed_out: tuple[int, ...]
) -> None:
    assert isinstance(judged(view(state), on_purpose=on_purpose, timed_out=timed_out), kind)


def test_f01_what_ran_is_told_how_its_worker_died() -> None:
    outcome = judged(view(State.STARTED))

    assert isinstance(outcome, Died)
    assert isinstance(outcome.error, WorkerDied)
    assert "was ended by signal 9 (SIGKILL)" in str(outcome.error)


def test_what_had_not_begun_is_interrupted() -> None:
    outcome = judged(view(State.ENTERED))

    assert isinstance(outcome, Interrupted)
    assert "was ended by signal 9 (SIGKILL)" in outcome.reason


@pytest.mark.parametrize("state", [State.ENTERED, State.STARTED])
def test_what_was_ended_on_purpose_and_not_for_its_own_limit_is_interrupted(state: State) -> None:
    assert isinstance(judged(view(state), on_purpose=True), Interrupted)


@pytest.mark.parametrize("state", [State.ENTERED, State.STARTED])
def test_f16_what_was_past_its_limit_has_timed_out(state: State) -> None:
    outcome = judged(view(state, running=running(1.5)), on_purpose=True, timed_out=(0,))

    assert isinstance(outcome, TimedOut)
    assert outcome.limit == 1.5
    assert isinstance(outcome.error, JobTimeout)
    assert "1.5 s" in str(outcome.error)


def test_an_estate_is_empty_when_nothing_is_left_to_settle_or_to_recover() -> None:
    assert estate(view(State.SETTLED, State.SETTLED), view()).is_empty
    assert not estate(view(State.SETTLED, State.HELD)).is_empty
    assert not estate(view(State.SETTLED), view(State.DONE)).is_empty
    assert not estate(view(asking="another token")).is_empty
