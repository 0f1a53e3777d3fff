from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest

from flask_jobs.envelope import Envelope
from flask_jobs.errors import (
    InvalidArgument,
    MalformedEnvelope,
    NewerVersion,
    NotRegistered,
    UnknownJob,
    UnrebuildableJob,
    UnserializableJob,
)
from flask_jobs.job import Job
from flask_jobs.registry import Registry
from flask_jobs.serializer import ModelReferences, Serializer, Signer
from tests.values import Echo, no_session

Enclose = Callable[[Job], Envelope]
RoundTrip = Callable[[Job], Any]


class Money:
    def __init__(self, amount: Decimal, currency: str) -> None:
        self.amount = amount
        self.currency = currency

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Money) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]


class Cents(Money):
    pass


def signed(signer: Signer, **changes: object) -> Envelope:
    payload = {"v": 1, "job": "echo", "jv": 1, "fields": {"value": 1}, "meta": {}} | changes
    return Envelope("id", "echo", "default", signer.sign(json.dumps(payload)))


def test_the_constructor_runs_once_at_dispatch(registry: Registry, round_trip: RoundTrip) -> None:
    constructed = []

    @registry.register("once")
    class Once(Job):
        def __init__(self) -> None:
            constructed.append(self)
            self.value = 1

    assert round_trip(Once()).value == 1
    assert len(constructed) == 1


def test_a_class_attribute_is_code_and_an_instance_attribute_travels(
    registry: Registry, serializer: Serializer, envelope_of: Enclose
) -> None:
    @registry.register("mail")
    class Mail(Job):
        timeout = 5
        subject = "old"

    job = Mail()
    job.queue = "slow"
    envelope = envelope_of(job)
    Mail.subject = "new"

    rebuilt: Any = serializer.decode(envelope)

    assert (rebuilt.subject, rebuilt.queue, rebuilt.timeout) == ("new", "slow", 5)
    assert '"fields":{"queue":"slow"}' in envelope.body


def test_dataclass_jobs_come_back_frozen_and_slotted(registry: Registry, round_trip: RoundTrip) -> None:
    @registry.register("frozen")
    @dataclass(frozen=True, slots=True)
    class Frozen(Job):
        number: int
        names: list[str] = field(default_factory=list)

    job = round_trip(Frozen(1, ["a"]))

    assert job == Frozen(1, ["a"])
    assert not hasattr(job, "__dict__")


def test_private_slots_come_back(registry: Registry, round_trip: RoundTrip) -> None:
    @registry.register("private")
    class Private(Job):
        __slots__ = ("__secret", "unset")

        def __init__(self) -> None:
            self.__secret = 7

        @property
        def secret(self) -> int:
            return self.__secret

    assert round_trip(Private()).secret == 7


def test_a_stored_field_that_the_class_no_longer_has_is_an_attribute_all_the_same(
    registry: Registry, serializer: Serializer, signer: Signer
) -> None:
    registry.register("echo")(Echo)

    job: Any = serializer.decode(signed(signer, fields={"value": 1, "old": 2}))

    assert (job.value, job.old) == (1, 2)


def test_a_stored_field_that_has_no_slot_any_more_is_told(
    registry: Registry, serializer: Serializer, signer: Signer
) -> None:
    @registry.register("echo")
    @dataclass(slots=True)
    class Slotted(Job):
        value: int

    with pytest.raises(UnrebuildableJob, match="Slotted cannot take the stored field 'old'"):
        serializer.decode(signed(signer, fields={"value": 1, "old": 2}))


def test_a_new_field_of_a_dataclass_job_gets_its_default_and_one_without_is_told(
    registry: Registry, serializer: Serializer, signer: Signer
) -> None:
    @registry.register("echo")
    @dataclass(slots=True)
    class Grown(Job):
        value: int
        names: list[str] = field(default_factory=list)
        size: int = 3

    assert serializer.decode(signed(signer)) == Grown(1, [], 3)
    with pytest.raises(UnrebuildableJob, match="Grown needs the field 'value', which was not stored"):
        serializer.decode(signed(signer, fields={}))


def test_a_task_comes_back_with_its_arguments(registry: Registry, round_trip: RoundTrip) -> None:
    calls = []

    @registry.task("add", max_attempts=1)
    def add(one: int, /, *more: int, scale: int = 1, **named: int) -> None:
        calls.append((one, more, scale, named))

    job = round_trip(add(1, 2, 3, scale=4, five=5))
    job.handle()

    assert calls == [(1, (2, 3), 4, {"five": 5})]
    assert job.max_attempts == 1


@pytest.mark.parametrize(
    ("fields", "message"),
    [({}, "needs the argument 'value'"), ({"value": 1, "dry_run": True}, "has no parameter 'dry_run'")],
)
def test_a_function_whose_parameters_have_changed_is_told(
    registry: Registry, serializer: Serializer, signer: Signer, fields: object, message: str
) -> None:
    @registry.task("echo")
    def echo(value: int, more: int = 1) -> None:
        pass

    with pytest.raises(UnrebuildableJob, match=message):
        serializer.decode(signed(signer, fields=fields))


def test_an_unregistered_job_is_refused_and_says_what_to_write(serializer: Serializer) -> None:
    class SendInvoice(Job):
        pass

    with pytest.raises(NotRegistered, match=r'Add @jobs.register\("send-invoice"\) above it'):
        serializer.encode(SendInvoice())


@pytest.mark.parametrize("make", [lambda task: task, lambda task: Echo, lambda task: 7, lambda task: None])
def test_only_a_job_can_be_encoded(registry: Registry, serializer: Serializer, make: Callable[[Any], Any]) -> None:
    @registry.task("plain")
    def plain() -> None:
        pass

    with pytest.raises(InvalidArgument):
        serializer.encode(make(plain))


# Codecs


def test_a_value_type_with_a_codec_comes_back(registry: Registry, round_trip: RoundTrip) -> None:
    registry.register("echo")(Echo)
    registry.codec(Money, "money", lambda m: (m.amount, m.currency), lambda parts: Money(*parts))

    assert round_trip(Echo([Money(Decimal("1.10"), "EUR")])).value == [Money(Decimal("1.10"), "EUR")]


def test_a_codec_may_give_values_of_another(registry: Registry, round_trip: RoundTrip) -> None:
    registry.register("echo")(Echo)
    registry.codec(Money, "money", lambda m: [m.amount, m.currency], lambda parts: Money(*parts))
    registry.codec(Cents, "cents", lambda c: Money(c.amount, c.currency), lambda m: Cents(m.amount, m.currency))

    assert type(round_trip(Echo(Cents(Decimal(1), "EUR"))).value) is Cents


def test_a_codec_is_for_exactly_its_class(registry: Registry, serializer: Serializer) -> None:
    registry.register("echo")(Echo)
    registry.codec(Money, "money", lambda m: [m.amount, m.currency], lambda parts: Money(*parts))

    with pytest.raises(UnserializableJob, match=r"value is of type Cents, which cannot be stored"):
        serializer.encode(Echo(Cents(Decimal(1), "EUR")))


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        (lambda m: m.nothing, "value is of type Money, and encode of its codec 'money' raised"),
        (lambda m: [1j], r"value→money\[0\] is of type complex"),
        (lambda m: m, "is nested deeper than 32 levels, or holds itself"),
    ],
)
def test_a_codec_that_gives_nothing_storable_is_told(
    registry: Registry, serializer: Serializer, encode: Callable[[Any], object], message: str
) -> None:
    registry.register("echo")(Echo)
    registry.codec(Money, "money", encode, Money)  # type: ignore[arg-type]

    with pytest.raises(UnserializableJob, match=message):
        serializer.encode(Echo(Money(Decimal(1), "EUR")))


@pytest.mark.parametrize(
    ("name", "message"),
    [("money", r"value\[0\] does not fit: decode of the codec 'money' raised"), ("lost", "needs the codec 'lost'")],
)
def test_what_a_codec_cannot_read_is_told(
    registry: Registry, serializer: Serializer, signer: Signer, name: str, message: str
) -> None:
    registry.register("echo")(Echo)
    registry.codec(Money, "money", lambda m: 1, lambda plain: plain.nothing)

    with pytest.raises(UnrebuildableJob, match=message) as refusal:
        serializer.decode(signed(signer, fields={"value": [{"$codec": [name, 1]}]}))

    assert isinstance(refusal.value.__cause__, AttributeError if name == "money" else type(None))


# Versions and names


@pytest.fixture
def invoice(registry: Registry) -> type[Job]:
    @registry.register("echo", aliases=["old-echo"])
    class Invoice(Job):
        version = 3

    return Invoice


def test_old_fields_are_brought_up_step_by_step(
    registry: Registry, serializer: Serializer, signer: Signer, invoice: type[Job]
) -> None:
    @registry.upcast("old-echo", 1)
    def rename(fields: dict[str, Any]) -> dict[str, Any]:
        return {"amount": fields["value"]}

    @registry.upcast("echo", 2)
    def double(fields: dict[str, Any]) -> dict[str, Any]:
        return {"amount": fields["amount"] * 2, "currency": "EUR"}

    job = serializer.decode(signed(signer, fields={"value": {"$decimal": "1.10"}}))

    assert vars(job) == {"amount": Decimal("2.20"), "currency": "EUR"}


def test_a_missing_step_is_named(
    registry: Registry, serializer: Serializer, signer: Signer, invoice: type[Job]
) -> None:
    registry.upcast("echo", 1)(lambda fields: fields)

    with pytest.raises(UnrebuildableJob, match="no upcaster leads from version 2 to 3") as refusal:
        serializer.decode(signed(signer))

    assert "@jobs.upcast('echo', 2)" in str(refusal.value)


@pytest.mark.parametrize("step", [lambda fields: fields["lost"], lambda fields: None, lambda fields: {1: 2}])
def test_an_upcaster_that_fails_is_told(
    registry: Registry, serializer: Serializer, signer: Signer, invoice: type[Job], step: Any
) -> None:
    registry.upcast("echo", 2)(step)

    with pytest.raises(UnrebuildableJob, match="its upcaster from version 2"):
        serializer.decode(signed(signer, jv=2))


def test_a_job_of_a_newer_version_is_told_apart(serializer: Serializer, signer: Signer, invoice: type[Job]) -> None:
    with pytest.raises(NewerVersion, match="version 4, this code knows 3"):
        serializer.decode(signed(signer, jv=4))


def test_a_job_stored_under_an_old_name_still_runs(
    registry: Registry, serializer: Serializer, envelope_of: Enclose, signer: Signer
) -> None:
    registry.register("new", aliases=["echo"])(Echo)

    assert isinstance(serializer.decode(signed(signer)), Echo)
    assert envelope_of(Echo(1)).name == "new"


def test_the_name_beside_the_payload_must_be_the_signed_one(
    registry: Registry, serializer: Serializer, signer: Signer
) -> None:
    registry.register("new", aliases=["echo"])(Echo)

    with pytest.raises(MalformedEnvelope, match="says 'new', but the signed payload in it is of the job 'echo'"):
        serializer.decode(replace(signed(signer), name="new"))


def test_f07_an_unknown_name_is_told_apart_from_a_malformed_payload(serializer: Serializer, signer: Signer) -> None:
    with pytest.raises(UnknownJob, match="No job is registered under 'echo'"):
        serializer.decode(signed(signer))


# Size


def test_a_payload_may_be_as_large_as_allowed_and_not_a_byte_larger(registry: Registry, signer: Signer) -> None:
    registry.register("echo")(Echo)
    references = ModelReferences(registry, no_session)
    size = len(Serializer(registry, signer=signer, references=references).encode(Echo("x" * 100))[1])

    exact = Serializer(registry, signer=signer, references=references, max_payload=size)

    assert len(exact.encode(Echo("x" * 100))[1]) == size
    with pytest.raises(UnserializableJob, match=f"echo takes {size + 1} bytes, and JOBS_MAX_PAYLOAD allows {size} "):
        exact.encode(Echo("x" * 101))


def test_the_key_of_a_replaced_secret_still_opens_what_is_queued(registry: Registry) -> None:
    registry.register("echo")(Echo)
    old = Serializer(registry, signer=Signer("old"), references=ModelReferences(registry, no_session))
    new = Serializer(registry, signer=Signer("new", ["old"]), references=ModelReferences(registry, no_session))

    name, body = old.encode(Echo(1))

    assert isinstance(new.decode(Envelope("id", name, "default", body)), Echo)
