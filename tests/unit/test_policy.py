from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flask_jobs import history, policy
from flask_jobs.control import JobTimeout
from flask_jobs.envelope import Ack, After, Counters, Entry, Event, Fail, Release, Reservation, Settlement, instant
from flask_jobs.errors import MalformedEnvelope, MaxAttemptsExceeded, NewerVersion, UnknownJob
from flask_jobs.options import JobOptions
from flask_jobs.outcome import (
    Done,
    Hopeless,
    Interrupted,
    Newer,
    Outcome,
    Raised,
    Refused,
    Released,
    Skipped,
    TimedOut,
    Unknown,
)

from .support.values import NOW, entries, options, reservation

BOOM = ValueError("boom")


def decide(
    held: Reservation, outcome: Outcome, given: JobOptions | None = None, *, now: float = NOW, jitter: float = 1.0
) -> Settlement:
    return policy.decide(held, outcome, given or options(), now=now, jitter=jitter)


def released(settlement: Settlement) -> Release:
    assert isinstance(settlement, Release)
    return settlement


def failed(settlement: Settlement) -> Fail:
    assert isinstance(settlement, Fail)
    return settlement


# Ended well


@pytest.mark.parametrize("outcome", [Done(), Skipped("by a middleware")])
def test_a_job_that_ended_leaves_the_store(outcome: Outcome):
    held = reservation()

    assert decide(held, outcome) == Ack(held, skipped=isinstance(outcome, Skipped))


# Put back


def test_f08_a_release_before_the_body_gives_the_attempt_back_and_is_counted_apart():
    got = released(
        decide(reservation(attempts=1), Released(30, "rate limited", started=False), options(max_attempts=1))
    )

    assert got.counters == Counters(attempts=0, releases=1)
    assert got.due == After(30)
    assert got.entry == Entry(Event.RELEASED, NOW, 1, "rate limited", NOW + 30)


def test_a_release_from_the_body_has_spent_the_attempt_and_is_no_put_back():
    got = released(decide(reservation(attempts=1), Released(30, "not yet", started=True)))

    assert got.counters == Counters(attempts=1, releases=0)


def test_a_release_from_the_body_of_the_last_attempt_fails():
    got = failed(decide(reservation(attempts=3), Released(0, "not yet", started=True), options(max_attempts=3)))

    assert got.error.type.endswith("MaxAttemptsExceeded")
    assert "max_attempts is 3" in got.error.message
    assert got.entry == Entry(Event.RELEASED, NOW, 3, "not yet")


def test_a_release_that_is_to_cost_an_attempt_costs_one_and_is_counted_as_a_release():
    got = released(
        decide(reservation(attempts=1), Released(30, "busy", started=False, spends=True), options(max_attempts=2))
    )

    assert (got.counters.attempts, got.counters.releases) == (1, 1)


def test_a_job_that_is_put_back_in_its_last_attempt_fails_where_that_costs_one():
    got = failed(
        decide(reservation(attempts=2), Released(30, "busy", started=False, spends=True), options(max_attempts=2))
    )

    assert "it was put back in its last attempt, and max_attempts is 2" in got.error.message


def test_more_releases_than_max_releases_fail_and_say_so():
    given = options(max_releases=2)
    outcome = Released(1, "rate limited", started=False)

    within = decide(reservation(releases=1), outcome, given)
    beyond = failed(decide(reservation(releases=2), outcome, given))

    assert isinstance(within, Release)
    assert "put back 3 times" in beyond.error.message
    assert "max_releases is 2" in beyond.error.message
    assert beyond.error.causes[-1] == "attempt 1 released: rate limited"


def test_f08_forty_thousand_releases_overflow_nothing():
    got = released(decide(reservation(releases=40_000), Released(1, "rate limited", started=False)))

    assert got.counters.releases == 40_001


def test_a_deadline_bounds_releases():
    held = reservation(retry_until=NOW + 60)

    within = decide(held, Released(60, "rate limited", started=False))
    beyond = failed(decide(held, Released(61, "rate limited", started=False)))

    assert isinstance(within, Release)
    assert "deadline" in beyond.error.message


# Errors


def test_an_error_is_counted_recorded_and_tried_again():
    got = released(decide(reservation(), Raised(BOOM), options(backoff=(7.0,))))

    assert got.counters == Counters(attempts=1, errors=1)
    assert got.due == After(7)
    assert got.entry == Entry(Event.ERROR, NOW, 1, "ValueError: boom", NOW + 7)


def test_the_error_of_the_last_attempt_fails_with_the_original_error():
    got = failed(decide(reservation(attempts=3), Raised(BOOM), options(max_attempts=3)))

    assert (got.error.type, got.error.message) == ("ValueError", "boom")
    assert got.counters == Counters(attempts=3, errors=1)
    assert got.entry == Entry(Event.ERROR, NOW, 3, "ValueError: boom")


def test_max_exceptions_fails_before_the_attempts_are_spent():
    given = options(max_attempts=10, max_exceptions=2)

    assert isinstance(decide(reservation(attempts=5, errors=0), Raised(BOOM), given), Release)
    assert isinstance(decide(reservation(attempts=6, errors=1), Raised(BOOM), given), Fail)


def test_max_attempts_of_0_never_ends():
    got = decide(reservation(attempts=5_000, errors=4_999), Raised(BOOM), options(max_attempts=0))

    assert isinstance(got, Release)


def test_f09_a_deadline_and_an_attempt_limit_that_the_job_sets_both_hold():
    given = options(max_attempts=3, backoff=(1.0, 2.0, 4.0))
    deadline = NOW + 3600

    first = released(decide(reservation(attempts=1, retry_until=deadline), Raised(BOOM), given))
    second = released(decide(reservation(attempts=2, errors=1, retry_until=deadline), Raised(BOOM), given))
    third = failed(decide(reservation(attempts=3, errors=2, retry_until=deadline), Raised(BOOM), given))

    assert (first.due, second.due) == (After(1), After(2))
    assert third.error.type == "ValueError"


def test_a_deadline_alone_replaces_the_attempt_limit_also_the_workers():
    given = JobOptions(max_attempts=2, sets_attempts=False, backoff=(1.0,))

    got = decide(reservation(attempts=50, retry_until=NOW + 60), Raised(BOOM), given)

    assert isinstance(got, Release)


def test_a_retry_that_would_start_after_the_deadline_fails_now_with_the_original_error():
    given = options(max_attempts=10, backoff=(30.0,))

    within = decide(reservation(retry_until=NOW + 30), Raised(BOOM), given)
    beyond = failed(decide(reservation(retry_until=NOW + 29), Raised(BOOM), given))

    assert isinstance(within, Release)
    assert beyond.error.type == "ValueError"
    assert beyond.entry is not None
    assert "after the deadline" in beyond.entry.reason


def test_an_error_that_cannot_be_shown_is_decided_all_the_same():
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert isinstance(decide(reservation(attempts=3), Raised(Mute())), Fail)


# Backoff


@pytest.mark.parametrize(("attempt", "pause"), [(1, 5), (2, 10), (3, 20), (4, 20), (99, 20)])
def test_a_list_goes_by_attempt_and_its_last_number_repeats(attempt: int, pause: float):
    given = options(max_attempts=0, backoff=(5.0, 10.0, 20.0))

    assert released(decide(reservation(attempts=attempt), Raised(BOOM), given)).due == After(pause)


def test_f09_a_number_is_taken_as_it_is_without_jitter():
    given = options(backoff=(7200.0,))

    assert {released(decide(reservation(), Raised(BOOM), given, jitter=j / 10)).due for j in range(10)} == {After(7200)}


@pytest.mark.parametrize(("attempt", "longest"), [(1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (5_000, 600)])
def test_f09_the_default_doubles_up_to_its_cap_and_never_overflows(attempt: int, longest: float):
    assert policy.default_backoff(attempt, 1.0) == longest
    assert policy.default_backoff(attempt, 0.0) == longest / 4


def test_f09_jobs_that_failed_together_come_back_over_more_than_half_of_the_interval():
    given = options()

    dues = [
        instant(released(decide(reservation(), Raised(BOOM), given, jitter=i / 200)).due, NOW) - NOW for i in range(200)
    ]

    assert max(dues) <= 10
    assert max(dues) - min(dues) > 5


def test_a_backoff_method_can_be_given_unasked():
    given = options(backoff=lambda attempt: attempt * 3)

    assert released(decide(reservation(attempts=2), Raised(BOOM), given)).due == After(6)


# Timeouts, interruptions, hopeless cases


def test_a_timeout_is_tried_again_like_an_error():
    got = released(decide(reservation(), TimedOut(1.5, JobTimeout()), options(backoff=(9.0,))))

    assert got.counters == Counters(attempts=1, errors=1)
    assert got.entry == Entry(Event.TIMED_OUT, NOW, 1, "reached its limit of 1.5 s", NOW + 9)


def test_a_timeout_fails_a_job_that_wants_it_so():
    got = failed(decide(reservation(), TimedOut(1, JobTimeout("slow")), options(fail_on_timeout=True)))

    assert got.error.type.endswith("JobTimeout")
    assert got.entry is not None
    assert got.entry.event is Event.TIMED_OUT


def test_an_interruption_is_not_charged_and_comes_back_at_once():
    got = released(decide(reservation(attempts=3), Interrupted("a stop"), options(max_attempts=3)))

    assert got.counters == Counters(attempts=2, interruptions=1)
    assert got.due == After(0)
    assert got.entry.event is Event.INTERRUPTED


def test_interruptions_are_bounded():
    within = decide(reservation(interruptions=19), Interrupted("a stop"))
    beyond = failed(decide(reservation(interruptions=20), Interrupted("a stop")))

    assert isinstance(within, Release)
    assert "max_interruptions is 20" in beyond.error.message


def test_a_hopeless_job_fails_at_once():
    got = failed(decide(reservation(), Hopeless(MalformedEnvelope("cut"))))

    assert got.error.message == "cut"
    assert got.entry is not None
    assert got.entry.event is Event.ERROR


# Unknown and newer


@pytest.mark.parametrize(
    ("outcome", "event", "pauses"),
    [
        (Unknown(UnknownJob("no such job")), Event.UNKNOWN_JOB, policy.UNKNOWN_PAUSES),
        (Newer(NewerVersion("version 3")), Event.NEWER_VERSION, policy.NEWER_PAUSES),
    ],
)
def test_f07_a_job_for_another_worker_is_put_back_uncharged_with_growing_pauses_then_fails(
    outcome: Outcome, event: Event, pauses: tuple[float, ...]
):
    before = entries(Event.ERROR, 2)
    for waited, pause in enumerate(pauses):
        got = released(decide(reservation(history=(*before, *entries(event, waited))), outcome))
        assert (got.due, got.counters.attempts, got.entry.event) == (After(pause), 0, event)

    last = failed(decide(reservation(history=(*before, *entries(event, len(pauses)))), outcome))

    assert last.error.message in {"no such job", "version 3"}
    assert last.entry is not None
    assert last.entry.event is event


def test_a_newer_job_is_given_more_patience_than_an_unknown_one():
    assert sum(policy.NEWER_PAUSES) > 3 * sum(policy.UNKNOWN_PAUSES)


def test_a_job_that_workers_of_two_ages_cannot_build_fails_in_the_end():
    life = Life(options(), None)
    outcomes = (Unknown(UnknownJob("?")), Newer(NewerVersion("!")))

    for turn in range(20):
        if life.end is None:
            life.deliver(outcomes[turn % 2])

    assert isinstance(life.end, Fail)


# Refusal


def test_a_job_whose_attempts_are_spent_is_refused_with_the_causes():
    expired = Entry(Event.LEASE_EXPIRED, NOW - 5, 3, "the worker fell silent")
    held = reservation(attempts=4, history=(*entries(Event.ERROR, 1), expired))

    refused = policy.refuse(held, options(max_attempts=3), NOW)

    assert refused is not None
    assert "started 3 times, and max_attempts is 3" in str(refused.error)
    got = failed(decide(held, refused, options(max_attempts=3)))
    assert got.error.type.endswith("MaxAttemptsExceeded")
    assert got.error.causes == ("attempt 1 error: as before", "attempt 3 lease-expired: the worker fell silent")
    assert got.counters.attempts == 3


@pytest.mark.parametrize(
    ("attempts", "retry_until", "is_refused"),
    [(1, NOW - 1, False), (2, NOW - 1, True), (2, NOW, False), (2, NOW + 1, False), (9, None, False)],
)
def test_only_the_first_attempt_may_start_after_the_deadline(
    attempts: int, retry_until: float | None, is_refused: bool
):
    refused = policy.refuse(reservation(attempts=attempts, retry_until=retry_until), options(max_attempts=0), NOW)

    assert (refused is not None) is is_refused


def test_the_error_that_a_failed_job_is_told_of_is_the_one_that_failed_it():
    assert policy.failure(Raised(BOOM), history.describe(BOOM)) is BOOM
    told = policy.failure(Released(1, "", started=False), history.describe(MaxAttemptsExceeded("put back too often")))
    assert isinstance(told, MaxAttemptsExceeded)
    assert str(told) == "put back too often"


# Over any sequence of outcomes

OUTCOMES = st.one_of(
    st.builds(Raised, st.just(BOOM)),
    st.builds(Released, st.floats(0, 100), st.just("wait"), st.booleans()),
    st.builds(TimedOut, st.just(1.0), st.just(JobTimeout())),
    st.builds(Interrupted, st.just("stop")),
    st.builds(Unknown, st.just(UnknownJob("?"))),
    st.builds(Newer, st.just(NewerVersion("!"))),
    st.just(None),  # the worker is killed in the body
)
LIMITS = st.builds(
    JobOptions,
    max_attempts=st.integers(1, 5),
    sets_attempts=st.just(True),
    max_exceptions=st.none() | st.integers(1, 5),
    max_releases=st.integers(0, 3),
    max_interruptions=st.integers(0, 3),
    fail_on_timeout=st.booleans(),
    backoff=st.none() | st.just((1.0, 2.0)),
)


class Life:
    """A job's deliveries, as a store would make them."""

    def __init__(self, limits: JobOptions, deadline: float | None) -> None:
        self.limits = limits
        self.held = reservation(attempts=0, retry_until=deadline)
        self.now = NOW
        self.bodies = 0
        self.end: Settlement | None = None

    def deliver(self, outcome: Outcome | None) -> None:
        counters = replace(self.held.counters, attempts=self.held.counters.attempts + 1)
        self.held = replace(self.held, counters=counters, now=self.now)
        refused = policy.refuse(self.held, self.limits, self.now)
        if refused is not None:
            outcome = refused
        elif not isinstance(outcome, Unknown | Newer) and getattr(outcome, "started", True):
            self.bodies += 1
        if outcome is None:
            self._expire()
            return
        settlement = decide(self.held, outcome, self.limits, now=self.now)
        if not isinstance(settlement, Release):
            self.end = settlement
            return
        self._check(settlement.counters)
        entry = settlement.entry
        self.held = replace(self.held, counters=settlement.counters, history=history.extended(self.held.history, entry))
        self.now = instant(settlement.due, self.now)

    def _expire(self) -> None:
        entry = Entry(Event.LEASE_EXPIRED, self.now, self.held.attempt)
        self.held = replace(self.held, history=history.extended(self.held.history, entry))
        self.now += 90

    def _check(self, after: Counters) -> None:
        before = self.held.counters
        assert after.attempts >= 0
        assert after.attempts in {before.attempts, before.attempts - 1}
        assert after.errors >= before.errors
        assert after.releases >= before.releases
        assert after.interruptions >= before.interruptions


@given(LIMITS, st.none() | st.floats(NOW, NOW + 500), st.lists(OUTCOMES, max_size=80))
def test_whatever_happens_the_body_starts_no_more_often_than_the_job_allows(limits, deadline, outcomes):
    life = Life(limits, deadline)
    for outcome in outcomes:
        if life.end is None:
            life.deliver(outcome)

    uncharged = life.held.counters.interruptions + (1 if isinstance(life.end, Fail) else 0)
    assert life.bodies <= limits.max_attempts + uncharged


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LIMITS, st.none() | st.floats(NOW, NOW + 500), st.lists(OUTCOMES, min_size=200, max_size=200))
def test_a_job_with_limits_ends_in_a_failure_however_long_it_goes_badly(limits, deadline, outcomes):
    life = Life(limits, deadline)
    for outcome in outcomes:
        if life.end is None:
            life.deliver(outcome)

    assert isinstance(life.end, Fail)
    assert life.end.counters.attempts <= limits.max_attempts


@given(
    st.builds(Counters, st.integers(1, 9), st.integers(0, 9), st.integers(0, 9), st.integers(0, 50)),
    st.none() | st.floats(NOW - 100, NOW + 100),
    OUTCOMES.filter(bool) | st.sampled_from([Done(), Skipped(""), Hopeless(BOOM), Refused(MaxAttemptsExceeded("x"))]),
    LIMITS | st.just(JobOptions(max_attempts=0)),
    st.floats(0, 1),
)
def test_every_outcome_has_a_decision_about_the_same_delivery(counters, deadline, outcome, limits, jitter):
    held = replace(reservation(retry_until=deadline), counters=counters)

    got = policy.decide(held, outcome, limits, now=NOW, jitter=jitter)

    assert got.reservation is held
    if isinstance(got, Release):
        assert NOW <= instant(got.due, NOW) <= NOW + max(policy.LONGEST_PAUSE, 100)
    if isinstance(got, Fail) and not isinstance(outcome, Refused):
        assert got.entry is not None


def test_deadlines_are_instants_of_the_store(monkeypatch: pytest.MonkeyPatch):
    # The host's clock may say what it likes.
    monkeypatch.setattr("time.time", lambda: dt.datetime(1999, 1, 1, tzinfo=dt.UTC).timestamp())

    refused = policy.refuse(reservation(attempts=2, retry_until=NOW - 1), options(), NOW)

    assert refused is not None
