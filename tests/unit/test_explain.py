from __future__ import annotations

from typing import Any

import pytest

from flask_jobs.envelope import Counters, Entry, Envelope, ErrorRecord, Event, Hook
from flask_jobs.explain import Pause, duration, explain, relative, transition
from flask_jobs.stored import FailedJob, State, StoredJob

NOW = 1_900_000_000.0
ENVELOPE = Envelope("01890000-0000-7000-8000-000000000000", "shop.note", "mail", "{}.x")


def stored(state: State, **facts: Any) -> StoredJob:
    facts = {"envelope": ENVELOPE, "counters": Counters(), "pushed_at": NOW - 300, **facts}
    return StoredJob(state=state, **facts)


def failed(**facts: Any) -> FailedJob:
    facts = {"counters": Counters(attempts=3, errors=3), "hook": Hook.NONE, **facts}
    error = ErrorRecord("shop.errors.CardRefused", "the card\nwas refused.")
    return FailedJob(ENVELOPE, error, pushed_at=NOW - 900, failed_at=NOW - 7200, position=1, **facts)


def entry(event: Event, reason: str = "because") -> Entry:
    return Entry(event, NOW - 20, 2, reason, NOW + 40)


@pytest.mark.parametrize(
    ("job", "pause", "sentence"),
    [
        (
            stored(State.READY),
            None,
            "Dispatched 5 min ago; it is due and waits for a free worker of queue 'mail'.",
        ),
        (
            stored(State.READY),
            Pause(),
            "Dispatched 5 min ago; it waits because queue 'mail' is paused until it is resumed.",
        ),
        (
            stored(State.READY),
            Pause(NOW + 60),
            "Dispatched 5 min ago; it waits because queue 'mail' is paused for another 60 s.",
        ),
        (
            stored(State.READY, envelope=Envelope("2", "shop.note", "mail", "{}.x", retried_from="1")),
            None,
            "Retried 5 min ago, as failed job 1 before; it is due and waits for a free worker of queue 'mail'.",
        ),
        (
            stored(State.READY, history=(entry(Event.INTERRUPTED, "the worker had to go"),)),
            None,
            "Attempt 2 was cut short (the worker had to go); it is due and waits for a free worker of queue 'mail'.",
        ),
        (
            stored(State.DELAYED, due=NOW + 300),
            None,
            "Dispatched 5 min ago; it was delayed and falls due in 5 min.",
        ),
        (
            stored(State.DELAYED, due=NOW + 300),
            Pause(),
            (
                "Dispatched 5 min ago; it was delayed and falls due in 5 min, and queue 'mail' is paused until it is "
                "resumed."
            ),
        ),
        (
            stored(State.DELAYED, due=NOW + 40, history=(entry(Event.ERROR, "ValueError: no\n such card."),)),
            None,
            (
                "Attempt 2 raised an error (ValueError: no such card); it waits for its next attempt and falls due "
                "in 40 s."
            ),
        ),
        (
            stored(State.DELAYED, due=NOW - 1),
            None,
            "Dispatched 5 min ago; its delay is over and it waits for a free worker of queue 'mail'.",
        ),
        (
            stored(State.READY, retry_until=NOW - 60, counters=Counters(attempts=1), history=(entry(Event.ERROR),)),
            None,
            (
                "Attempt 2 raised an error (because); it is due and waits for a free worker of queue 'mail'; "
                "its deadline passed 60 s ago, so it fails instead of running again."
            ),
        ),
        (
            stored(State.RESERVED, counters=Counters(attempts=2), leased_until=NOW + 60),
            None,
            "Attempt 2 is running; its worker holds the lease for another 60 s.",
        ),
        (
            stored(State.RESERVED, counters=Counters(attempts=2), leased_until=NOW - 60),
            None,
            (
                "Attempt 2 was with a worker that fell silent; its lease ran out 60 s ago, and the next worker that "
                "looks takes it over."
            ),
        ),
        (
            failed(),
            None,
            "Failed for good 2 h ago after 3 attempts with CardRefused: the card was refused.",
        ),
        (
            failed(counters=Counters(attempts=1), hook=Hook.RAISED),
            None,
            (
                "Failed for good 2 h ago after 1 attempt with CardRefused: the card was refused; its failed() method "
                "raised an error."
            ),
        ),
        (
            failed(counters=Counters(), hook=Hook.PENDING),
            None,
            (
                "Failed for good 2 h ago without having run with CardRefused: the card was refused; its failed() "
                "method has not run yet."
            ),
        ),
    ],
)
def test_a_job_is_explained_in_one_sentence(job: StoredJob | FailedJob, pause: Pause | None, sentence: str) -> None:
    assert explain(job, now=NOW, pause=pause).sentence == sentence


def test_a_first_attempt_is_not_bound_by_the_deadline() -> None:
    late = stored(State.READY, retry_until=NOW - 60)

    assert "deadline" not in explain(late, now=NOW).sentence


@pytest.mark.parametrize("event", list(Event))
def test_every_unhappy_transition_has_words_and_its_reason(event: Event) -> None:
    said = transition(entry(event), NOW)

    assert said.startswith("20 s ago: ")
    assert said.endswith(" (because); put off by 60 s")


def test_no_two_unhappy_transitions_are_told_alike() -> None:
    said = {transition(entry(event), NOW) for event in Event}

    assert len(said) == len(Event)


def test_the_transitions_are_told_in_their_order() -> None:
    job = stored(State.READY, history=(entry(Event.ERROR, "first"), entry(Event.TIMED_OUT, "second")))

    first, second = explain(job, now=NOW).transitions

    assert "first" in first
    assert "second" in second


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (0.4, "0 s"), (99.4, "99 s"), (100, "2 min"), (300, "5 min"), (7200, "2 h"), (1e6, "12 d")],
)
def test_a_span_is_told_in_its_nearest_unit(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(("instant", "words"), [(NOW, "now"), (NOW + 300, "in 5 min"), (NOW - 300, "5 min ago")])
def test_an_instant_is_told_as_seen_from_now(instant: float, words: str) -> None:
    assert relative(instant, NOW) == words
