from __future__ import annotations

import datetime as dt
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flask_jobs.envelope import Envelope
from flask_jobs.errors import UnserializableJob
from flask_jobs.job import Job
from flask_jobs.registry import Registry
from flask_jobs.serializer import ModelReferences, Serializer, Unsigned
from tests.values import REFUSED, VALUES, Echo, MyText, cycle, nested, no_session, same

text = st.text(st.characters(exclude_categories=()))
zones = (
    st.none() | st.timezones() | st.builds(dt.timezone, st.timedeltas(-dt.timedelta(hours=23), dt.timedelta(hours=23)))
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=1 << 70, max_value=1 << 20_000),
    st.floats(allow_nan=False, allow_infinity=False),
    text,
    st.binary(),
    st.dates(),
    st.times(timezones=zones),
    st.datetimes(timezones=zones, allow_imaginary=True),
    st.timedeltas(),
    st.decimals(),
    st.uuids(),
)
keys = scalars.filter(lambda value: not (isinstance(value, Decimal) and value.is_snan()))
hashable = st.recursive(keys, lambda parts: st.lists(parts).map(tuple) | st.frozensets(parts, max_size=4), max_leaves=5)
values = st.recursive(
    scalars,
    lambda parts: st.one_of(
        st.lists(parts, max_size=4),
        st.lists(parts, max_size=4).map(tuple),
        st.dictionaries(keys, parts, max_size=4),
        st.dictionaries(st.sampled_from(["$tuple", "$dict", "$", "a"]), parts),
        st.sets(hashable, max_size=4),
        st.frozensets(hashable, max_size=4),
    ),
    max_leaves=12,
)


@pytest.fixture(autouse=True)
def echo(registry: Registry) -> None:
    registry.register("echo")(Echo)


def make_serializer() -> Serializer:
    registry = Registry()
    registry.register("echo")(Echo)
    return Serializer(registry, signer=Unsigned(), references=ModelReferences(registry, no_session))


ANY = make_serializer()


@given(values)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_value_comes_back_equal_in_value_and_type(value: object) -> None:
    name, body = ANY.encode(Echo(value))

    job: Any = ANY.decode(Envelope("id", name, "default", body))

    assert same(job.value, value)
    assert body.isascii()


def test_plain_values_stay_plain_json(envelope_of: Callable[[Job], Envelope]) -> None:
    body = envelope_of(Echo({"a": [1, 2.5, True, None, "x"]})).body

    assert '"fields":{"value":{"a":[1,2.5,true,null,"x"]}}' in body


STORED = [
    ('{"$tuple":[1,{"$set":[]}]}', (1, set())),
    ('{"$frozenset":["a"]}', frozenset({"a"})),
    ('{"$dict":[[1,"one"],["$tuple",[]]]}', {1: "one", "$tuple": []}),
    ('{"$int":"-8000000000000001"}', -(1 << 63) - 1),
    ('{"$str":["\\ud83c","\\udf89"]}', "\ud83c\udf89"),
    ('{"$bytes":"AP8="}', b"\x00\xff"),
    ('{"$date":"2024-02-29"}', dt.date(2024, 2, 29)),
    ('{"$time":"02:30:00"}', dt.time(2, 30)),
    ('{"$time":["02:30:00",1,"Europe/Berlin"]}', dt.time(2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))),
    ('{"$datetime":"2024-01-31T12:00:00+00:00"}', dt.datetime(2024, 1, 31, 12, tzinfo=dt.UTC)),
    (
        '{"$datetime":["2024-10-27T02:30:00",1,"Europe/Berlin"]}',
        dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
    ),
    (
        '{"$datetime":["2024-01-31T12:00:00",0,[3600000000,"CET"]]}',
        dt.datetime(2024, 1, 31, 12, tzinfo=dt.timezone(dt.timedelta(hours=1), "CET")),
    ),
    ('{"$timedelta":[-1,86399,5]}', dt.timedelta(-1, 86_399, 5)),
    ('{"$decimal":"1.10"}', Decimal("1.10")),
]


@pytest.mark.parametrize(("stored", "value"), STORED, ids=[stored[2:12] for stored, _ in STORED])
def test_what_was_stored_by_the_first_release_is_written_and_read_the_same_for_ever(stored: str, value: object) -> None:
    body = f'{{"v":1,"job":"echo","jv":1,"fields":{{"value":{stored}}},"meta":{{}}}}'

    job: Any = ANY.decode(Envelope("id", "echo", "default", body))

    assert same(job.value, value)
    assert ANY.encode(Echo(value)) == ("echo", body)


PLACES: list[tuple[object, str]] = [
    ([{"price": 1j}], "value[0]['price'] is of type complex"),
    ({"a": (1, {2: [1j]})}, "value['a'][1][2][0] is of type complex"),
    ({1j}, "value[…] is of type complex"),
    ({"k" * 50: 1j}, "value[…] is of type complex"),
    ({b"key": 1j}, "value[…] is of type complex"),
    ({(1, 2): 3}, "value[…] has a key of type tuple"),
    ([float("nan")], "value[0] is a float that is not finite"),
    ([MyText("x")], "value[0] is of type MyText, and would come back as a plain str"),
]


@pytest.mark.parametrize(("value", "message"), PLACES, ids=[message for _, message in PLACES])
def test_a_refusal_names_the_place_and_the_type(serializer: Serializer, value: object, message: str) -> None:
    with pytest.raises(UnserializableJob) as refusal:
        serializer.encode(Echo(value))

    assert str(refusal.value).startswith(f"echo cannot be stored: {message}")


def test_a_refusal_never_shows_the_value(serializer: Serializer) -> None:
    with pytest.raises(UnserializableJob) as refusal:
        serializer.encode(Echo([MyText("my password")]))

    assert "password" not in str(refusal.value)


def test_the_keys_of_a_sensitive_field_are_not_shown_either(registry: Registry, serializer: Serializer) -> None:
    @registry.register("login")
    class Login(Job):
        sensitive = ("tokens",)

        def __init__(self, tokens: dict[str, object]) -> None:
            self.tokens = tokens

    with pytest.raises(UnserializableJob) as refusal:
        serializer.encode(Login({"my password": object()}))

    assert "login cannot be stored: tokens is of type object" in str(refusal.value)
    assert "password" not in str(refusal.value)


def test_32_levels_are_stored_and_33_refused(serializer: Serializer, round_trip: Callable[[Job], Any]) -> None:
    assert same(round_trip(Echo(nested(32))).value, nested(32))

    with pytest.raises(UnserializableJob, match="nested deeper than 32 levels"):
        serializer.encode(Echo(nested(33)))


def test_a_value_that_holds_itself_is_refused(serializer: Serializer) -> None:
    with pytest.raises(UnserializableJob, match=r"holds itself"):
        serializer.encode(Echo(cycle()))


def test_a_value_that_doubles_with_every_level_is_refused_before_it_fills_the_memory(serializer: Serializer) -> None:
    value: object = "x" * 1000
    for _ in range(30):
        value = [value, value]

    with pytest.raises(UnserializableJob, match="takes more than 16777216 bytes"):
        serializer.encode(Echo(value))


def test_a_time_zone_that_is_not_installed_by_that_name_is_refused(serializer: Serializer) -> None:
    path = zoneinfo.TZPATH[0] if zoneinfo.TZPATH else ""
    with open(f"{path}/Europe/Berlin", "rb") as file:
        zone = zoneinfo.ZoneInfo.from_file(file, key="Mars/Phobos")

    with pytest.raises(UnserializableJob, match="value has a time zone of type ZoneInfo that cannot be named"):
        serializer.encode(Echo(dt.datetime(2024, 1, 1, tzinfo=zone)))


SHALLOW = [(label, make) for label, make in VALUES if label != "32 levels"]


@pytest.mark.parametrize(("label", "make"), SHALLOW, ids=[label for label, _ in SHALLOW])
def test_each_kind_of_value_comes_back_in_containers_too(
    round_trip: Callable[[Job], Any], label: str, make: Callable[[], object]
) -> None:
    job = round_trip(Echo([(make(),), {"key": make(), 1: make()}]))

    assert same(job.value, [(make(),), {"key": make(), 1: make()}])


@pytest.mark.parametrize(("label", "make"), REFUSED, ids=[label for label, _ in REFUSED])
def test_what_cannot_be_stored_is_refused_in_containers_too(
    serializer: Serializer, label: str, make: Callable[[], object]
) -> None:
    with pytest.raises(UnserializableJob, match=r"^echo cannot be stored: value\[0\]\['key'\]"):
        serializer.encode(Echo([{"key": make()}]))
