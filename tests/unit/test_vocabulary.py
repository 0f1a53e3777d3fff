from __future__ import annotations

import datetime as dt
import uuid
import zoneinfo

import pytest
from freezegun import freeze_time
from hypothesis import given
from hypothesis import strategies as st

from flask_jobs import history, validation
from flask_jobs.envelope import After, At, Entry, Event
from flask_jobs.errors import InvalidArgument
from flask_jobs.ids import new_id

NAMES_REFUSED = ["a:b", "a,b", "a b", "名前", "u\u0308ni", "\u00fcni", "x" * 81, "", "*", "{x}", "a ", "a\n", None, 7]


@pytest.mark.parametrize("name", ["default", "a-b", "A.b", "a_b", "x" * 80, "0"])
def test_f40_a_queue_name_of_the_grammar_is_taken_as_it_is(name: str) -> None:
    assert validation.queue_name(name) == name


@pytest.mark.parametrize("name", NAMES_REFUSED)
def test_f40_any_other_queue_name_is_refused(name: object) -> None:
    with pytest.raises(InvalidArgument, match="no queue name"):
        validation.queue_name(name)


def test_a_list_of_queues_keeps_its_order_and_loses_repetitions() -> None:
    assert validation.queue_names("high, default,high") == ["high", "default"]


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), True, "5", None, 10**400, dt.timedelta(days=-1)])
def test_seconds_that_are_none_are_refused(value: object) -> None:
    with pytest.raises(InvalidArgument, match="delay must be"):
        validation.seconds(value, what="delay")


def test_f45_a_naive_datetime_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="without a time zone"):
        validation.when(dt.datetime(2030, 1, 1), what="delay")


@pytest.mark.parametrize("fold", [0, 1])
def test_f45_an_aware_datetime_is_its_instant_in_both_folds(fold: int) -> None:
    local = dt.datetime(2026, 10, 25, 2, 30, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"), fold=fold)

    assert validation.when(local, what="delay") == At(1792888200.0 + 3600 * fold)


def test_a_duration_is_left_to_the_clock_of_the_store() -> None:
    assert validation.when(dt.timedelta(minutes=2), what="delay") == After(120.0)


def test_ids_are_uuids_of_version_7_and_grow_within_one_millisecond() -> None:
    with freeze_time("2030-01-01"):
        ids = [new_id() for _ in range(10_000)]

    assert ids == sorted(set(ids))
    assert {(uuid.UUID(i).version, uuid.UUID(i).variant) for i in ids} == {(7, uuid.RFC_4122)}


def test_f46_ids_follow_the_clock_when_a_frozen_future_has_ended() -> None:
    with freeze_time("2099-01-01"):
        frozen = new_id()

    assert new_id() < frozen


def test_the_history_keeps_the_latest_entries() -> None:
    entries = [Entry(Event.ERROR, float(n), n, "x") for n in range(50)]

    kept = history.extended(entries[:30], *entries[30:])

    assert kept == tuple(entries[30:])
    assert history.load(history.dump(kept)) == kept


@given(st.text(st.characters()))
def test_what_is_recorded_of_an_error_can_be_stored(text: str) -> None:
    message = history.describe(ValueError(text)).message

    assert "\x00" not in message
    message.encode("utf-8")


def test_f39_a_huge_message_is_cut_and_marked() -> None:
    message = history.describe(ValueError("x" * 5_000_000)).message

    assert message.endswith("more characters]")
    assert len(message) < 65_000


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_an_error_whose_str_raises_is_named_by_its_type() -> None:
    error = Unspeakable()
    error.__cause__ = Unspeakable()

    record = history.describe(error)

    assert record.message == "<str() of Unspeakable raises>"
    assert len(record.causes) == 1


class Exiting(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Nameless(type):
    def __getattribute__(cls, name: str) -> object:
        raise RuntimeError("no")


def test_an_error_whose_str_exits_ends_nobody() -> None:
    error = Exiting()
    error.__cause__ = Exiting()

    record = history.describe(error)

    assert record.message == "<str() of Exiting raises>"
    assert record.causes[0].endswith("Exiting: <str() of Exiting raises>")


def test_an_error_whose_type_tells_no_name_is_recorded() -> None:
    error = Nameless("Strange", (Exception,), {})("what it says")

    assert history.summary(error) == "<an error whose type has no name>: what it says"


@pytest.mark.parametrize(
    "text", ["{bad", "7", "[7]", '[["nope", 1, 1, "", null]]', '[["error", "a", 1, "", null]]', "[" * 100_000]
)
def test_a_history_that_cannot_be_read_is_empty(text: str) -> None:
    assert history.load(text) == ()


def test_at_most_twenty_causes_are_named_and_a_circle_ends() -> None:
    first = error = ValueError("0")
    for n in range(1, 40):
        error.__cause__ = ValueError(str(n))
        error = error.__cause__
    error.__cause__ = first

    assert len(history.describe(first).causes) == 20
