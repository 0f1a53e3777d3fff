"""Nothing that may be stored, by whomever, makes the decoder raise anything but the errors that it is known for."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from sqlalchemy import orm
from sqlalchemy.orm import Mapped, Session, mapped_column

from flask_jobs.envelope import Envelope
from flask_jobs.errors import MalformedEnvelope, ModelNotFound, UnknownJob, UnrebuildableJob
from flask_jobs.job import Job
from flask_jobs.registry import Registry
from flask_jobs.serializer import ModelReferences, Serializer, Signer
from flask_jobs.serializer.codec import READERS
from tests.values import VALUES, Bill, Echo, Level, Line, Permission, Status

EXPECTED = (MalformedEnvelope, UnknownJob, UnrebuildableJob, ModelNotFound)
SIGNER = Signer("key")
PATIENT = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Model(orm.DeclarativeBase):
    pass


class Order(Model):
    __tablename__ = "orders"

    id: Mapped[int] = mapped_column(primary_key=True)


class Touchy:
    def __hash__(self) -> int:
        raise RuntimeError("not to be hashed")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")


def make_serializer() -> Serializer:
    engine = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    Model.metadata.create_all(engine)
    registry = Registry()
    registry.register("echo")(Echo)
    registry.model("order")(Order)
    registry.codec(Touchy, "touchy", lambda touchy: None, lambda plain: Touchy())
    registry.task("add")(add)
    return Serializer(registry, signer=SIGNER, references=ModelReferences(registry, lambda: Session(engine)))


def add(one: Status, two: Line | Bill = Bill(())) -> Level | Permission:  # noqa: B008, RUF100
    raise NotImplementedError


SERIALIZER = make_serializer()

PARTED = ["$tuple", "$set", "$frozenset", "$dict", "$model", "$enum", "$data", "$codec"]
TAGS = [*READERS, *PARTED, "$unknown", "$"]
text = st.text(st.characters(exclude_categories=()), max_size=8) | st.sampled_from(
    [
        "order",
        "touchy",
        "Status",
        "Line",
        "Bill",
        "open",
        "Europe/Berlin",
        "Europe",
        "../x",
        "\x00",
        "2024-01-31",
        "NaN",
    ]
)
rubbish = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text,
    lambda parts: st.one_of(
        st.lists(parts, max_size=4),
        st.dictionaries(text, parts, max_size=3),
        st.dictionaries(st.sampled_from(TAGS), parts, min_size=1, max_size=1),
        st.dictionaries(st.sampled_from(TAGS), st.tuples(text, parts).map(list), min_size=1, max_size=1),
        st.dictionaries(st.sampled_from(TAGS), st.lists(st.tuples(parts, parts).map(list)), min_size=1, max_size=1),
    ),
    max_leaves=10,
)


def survives(body: str, name: str = "echo") -> None:
    """Decode and describe the body; any error that is not expected comes through."""
    envelope = Envelope("id", name, "default", body)
    try:
        job = SERIALIZER.decode(envelope)
    except EXPECTED as error:
        assert str(error)  # noqa: PT017
    else:
        assert isinstance(job, Job)
    assert SERIALIZER.describe(envelope)["job"] == name


@given(st.text(st.characters(exclude_categories=())))
@PATIENT
@example("")
@example(".")
@example("a.b")
def test_f07_any_text_is_malformed(body: str) -> None:
    with pytest.raises(MalformedEnvelope):
        SERIALIZER.decode(Envelope("id", "echo", "default", body))
    assert SERIALIZER.describe(Envelope("id", "echo", "default", body))["problem"]


@given(rubbish)
@PATIENT
def test_f07_any_signed_json_is_taken_or_refused(raw: object) -> None:
    survives(SIGNER.sign(json.dumps(raw)))


@given(rubbish, rubbish, rubbish, st.sampled_from([1, 1, 1, 2, 0, True, "1", None]))
@PATIENT
def test_f07_any_head_is_taken_or_refused(name: object, version: object, fields: object, layout: object) -> None:
    survives(SIGNER.sign(json.dumps({"v": layout, "job": name, "jv": version, "fields": fields})))


@given(rubbish)
@PATIENT
@example({"$set": [{"$codec": ["touchy", 1]}, {"$codec": ["touchy", 1]}]})
@example({"$dict": [[{"$codec": ["touchy", 1]}, 1]]})
@example({"$model": ["order", [float("nan")]]})
@example({"$timedelta": [1e308, 0, 0]})
@example({"$datetime": ["2024-01-31", 1, [1e308]]})
@example({"$time": ["10:00", 7, None]})
@example({"$decimal": "1e999999999999999999999"})
@example({"$bytes": "é"})
@example({"$data": ["Line", {"__class__": 7, "__dict__": 7}]})
@example({"$data": ["Bill", {"lines": 1, "extra": 2}]})
@example({"$codec": [[], 1]})
@example({"$codec": ["lost", 1]})
@example({"$model": [[], [1]]})
@example({"$enum": [{}, {}]})
def test_f07_any_field_is_taken_or_refused(raw: object) -> None:
    survives(SIGNER.sign(json.dumps({"v": 1, "job": "echo", "jv": 1, "fields": {"value": raw}})))


@given(st.dictionaries(text | st.sampled_from(["one", "two", "__class__", "__dict__"]), rubbish, max_size=3))
@PATIENT
def test_f07_any_arguments_are_taken_or_refused(fields: dict[str, object]) -> None:
    survives(SIGNER.sign(json.dumps({"v": 1, "job": "add", "jv": 1, "fields": fields})), name="add")
    survives(SIGNER.sign(json.dumps({"v": 1, "job": "echo", "jv": 1, "fields": fields})))


REAL = [SERIALIZER.encode(Echo(make()))[1].rpartition(".")[0] for label, make in VALUES if "9,000" not in label]


@given(st.sampled_from(REAL), st.data())
@PATIENT
def test_f07_a_real_payload_that_was_changed_and_signed_is_taken_or_refused(payload: str, data: Any) -> None:
    start = data.draw(st.integers(0, len(payload)))
    end = data.draw(st.integers(start, min(len(payload), start + 10)))
    between = data.draw(st.text(st.sampled_from('[]{}",:$01e-T\\ux null'), max_size=6))

    survives(SIGNER.sign(payload[:start] + between + payload[end:]))


@pytest.mark.parametrize("payload", REAL, ids=range(len(REAL)))
def test_f07_a_payload_cut_anywhere_is_malformed(payload: str) -> None:
    body = SIGNER.sign(payload)

    for end in {0, 1, len(payload) // 2, len(payload), len(body) - 2}:
        with pytest.raises(MalformedEnvelope):
            SERIALIZER.decode(Envelope("id", "echo", "default", body[:end]))


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("[]", "no JSON object"),
        ('"text"', "no JSON object"),
        ("7", "no JSON object"),
        ("null", "no JSON object"),
        ("{", "no JSON: it was cut"),
        ("{}", "no format version"),
        ('{"v":2,"job":"echo"}', "format version 2; this code reads up to 1"),
        ('{"v":1,"job":"echo","jv":0,"fields":{}}', "lacks its job's name, version or fields"),
        ('{"v":1,"job":"echo","jv":1,"fields":[]}', "lacks its job's name, version or fields"),
        ("[" * 100_000, "no JSON: it was cut"),
        ('{"v":' * 100_000, "no JSON: it was cut"),
        ("9" * 5000, "no JSON: it was cut"),
    ],
)
def test_f07_what_is_signed_and_no_payload_is_malformed(raw: str, message: str) -> None:
    with pytest.raises(MalformedEnvelope, match=message):
        SERIALIZER.decode(Envelope("id", "echo", "default", SIGNER.sign(raw)))


@pytest.mark.parametrize(
    "opening", ["[", '{"a":', '{"$tuple":[', '{"$enum":["Status",', '{"$dict":[[1,', '{"$model":[']
)
def test_f07_a_payload_nested_too_deep_is_refused(opening: str) -> None:
    closing = "".join({"[": "]", "{": "}"}[c] for c in reversed(opening) if c in "[{")
    value = opening * 200 + "1" + closing * 200
    body = SIGNER.sign(f'{{"v":1,"job":"echo","jv":1,"fields":{{"value":{value}}}}}')

    with pytest.raises(UnrebuildableJob):
        SERIALIZER.decode(Envelope("id", "echo", "default", body))
    assert SERIALIZER.describe(Envelope("id", "echo", "default", body))["problem"] is None


@pytest.mark.parametrize(
    "raw", [{"$later": 1}, {"$tuple": [1], "more": 2}, {"more": 2, "$tuple": [1]}, {"$tuple": [1], "$set": [1]}]
)
def test_a_value_written_by_later_code_is_refused_and_not_half_read(raw: object) -> None:
    body = SIGNER.sign(json.dumps({"v": 1, "job": "echo", "jv": 1, "fields": {"value": [raw]}}))

    with pytest.raises(UnrebuildableJob, match=r"value\[0\] is written in a way that this code does not know"):
        SERIALIZER.decode(Envelope("id", "echo", "default", body))
