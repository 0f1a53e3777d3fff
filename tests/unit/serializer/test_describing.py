from __future__ import annotations

import datetime as dt
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from flask_jobs.envelope import Envelope
from flask_jobs.errors import UnserializableJob
from flask_jobs.job import Job
from flask_jobs.registry import Registry
from flask_jobs.serializer import Serializer, Signer
from tests.values import BERLIN, Bill, Echo, Level, Line, Permission, Status

SHOWN: list[tuple[object, str]] = [
    (None, "None"),
    (1.5, "1.5"),
    ("it's", '"it\'s"'),
    ("a\x1b[31m\ud800", "'a\\x1b[31m\\ud800'"),
    ([1, (2,), ()], "[1, (2,), ()]"),
    ({"a": {1: b"xyz"}}, "{'a': {1: <3 bytes>}}"),
    ({"$tuple": 1}, "{'$tuple': 1}"),
    ({7}, "{7}"),
    (set(), "set()"),
    (frozenset({7}), "frozenset({7})"),
    (frozenset(), "frozenset()"),
    (1 << 64, "0x10000000000000000"),
    ("\ud83c\udf89", "'\\ud83c\\udf89'"),
    (dt.date(2024, 2, 29), "2024-02-29"),
    (dt.datetime(2024, 2, 29, tzinfo=BERLIN), "2024-02-29 00:00:00+01:00"),
    (dt.timedelta(hours=25), "1 day, 1:00:00"),
    (Decimal("1.10"), "1.10"),
    (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    (Status.OPEN, "Status('open')"),
    (Permission.READ | Permission.SHARE, "Permission(5)"),
    (Bill((Line("a", Decimal(1)),), {Level.LOW: "x"}), None),
    ("x" * 1000, "'" + "x" * 299 + " … [702 more characters]"),
]


@pytest.mark.parametrize(("value", "text"), SHOWN)
def test_values_are_shown_as_text(
    registry: Registry,
    serializer: Serializer,
    envelope_of: Callable[[Job], Envelope],
    value: object,
    text: str | None,
) -> None:
    registry.register("echo")(Echo)
    if text is None:
        text = "Bill(lines=(Line(text='a', price=1, status=Status('open')),), levels={Level(1): 'x'}, after=None)"

    assert serializer.describe(envelope_of(Echo(value))) == {
        "job": "echo",
        "version": 1,
        "tags": [],
        "fields": {"value": text},
        "problem": None,
    }


@pytest.fixture
def login(registry: Registry) -> type[Job]:
    @registry.register("login", aliases=["sign-in"])
    class Login(Job):
        sensitive = ("token",)

        def __init__(self) -> None:
            self.user = "ann"
            self.token = "my password"

    return Login


def test_sensitive_fields_are_hidden(
    serializer: Serializer, envelope_of: Callable[[Job], Envelope], login: type[Job]
) -> None:
    assert serializer.describe(envelope_of(login()))["fields"] == {"user": "'ann'", "token": "[hidden]"}


@pytest.mark.parametrize("sensitive", [("user",), ["user"], "user"])
def test_what_an_instance_declares_sensitive_is_hidden_too(
    serializer: Serializer, envelope_of: Callable[[Job], Envelope], login: type[Job], sensitive: Any
) -> None:
    job = login()
    job.sensitive = sensitive

    fields = serializer.describe(envelope_of(job))["fields"]

    assert (fields["user"], fields["token"]) == ("[hidden]", "[hidden]")


def test_all_is_hidden_when_the_class_is_unknown(signer: Signer, serializer: Serializer) -> None:
    body = signer.sign('{"v":1,"job":"lost","jv":2,"fields":{"token":"my password"}}')

    description = serializer.describe(Envelope("id", "lost", "default", body))

    assert (description["job"], description["version"]) == ("lost", 2)
    assert description["fields"] == {"token": "[hidden]"}
    assert "No job is registered under 'lost'" in str(description["problem"])


def test_all_is_hidden_when_another_version_may_have_called_the_secret_otherwise(
    signer: Signer, serializer: Serializer, login: type[Job]
) -> None:
    login.version = 2
    body = signer.sign('{"v":1,"job":"sign-in","jv":1,"fields":{"secret":"my password"}}')

    assert serializer.describe(Envelope("id", "sign-in", "default", body))["fields"] == {"secret": "[hidden]"}


@pytest.mark.parametrize("body", ["", "{", "cut.off", '{"v":1}'])
def test_a_malformed_payload_is_described_as_that(serializer: Serializer, body: str) -> None:
    description = serializer.describe(Envelope("id", "echo", "default", body))

    assert (description["job"], description["version"], description["fields"]) == ("echo", None, {})
    assert "not signed" in str(description["problem"])


@pytest.mark.parametrize(
    "raw",
    [
        {"$enum": 1},
        {"$model": ["a"]},
        {"$data": ["a", 1]},
        {"$dict": [1]},
        {"$tuple": None},
        {"$unknown": 1},
        {"$datetime": "x"},
    ],
)
def test_a_value_that_is_no_value_is_shown_as_unreadable(
    registry: Registry, signer: Signer, serializer: Serializer, raw: object
) -> None:
    registry.register("echo")(Echo)
    payload = {"v": 1, "job": "echo", "jv": 1, "fields": {"value": [raw]}}
    envelope = Envelope("id", "echo", "default", signer.sign(json.dumps(payload)))

    assert serializer.describe(envelope)["fields"] == {"value": "[[unreadable]]"}


def test_no_code_of_the_app_runs(registry: Registry, serializer: Serializer, signer: Signer) -> None:
    class Money:
        pass

    registry.register("echo")(Echo)
    registry.codec(Money, "money", lambda money: 1, lambda plain: 1 / 0)
    value = [{"$codec": ["money", "9.90"]}, {"$model": ["order", [7, {"$uuid": str(uuid.UUID(int=7))}]]}]
    payload = {"v": 1, "job": "echo", "jv": 1, "fields": {"value": value}}
    envelope = Envelope("id", "echo", "default", signer.sign(json.dumps(payload)))

    assert serializer.describe(envelope)["fields"] == {
        "value": "[money('9.90'), order#7,00000000-0000-0000-0000-000000000007]"
    }


class Tagged(Job):
    def __init__(self, customer: int, tags: object = None) -> None:
        self.customer = customer
        self._words = tags

    def tags(self) -> Any:
        return [f"customer:{self.customer}", "mail"] if self._words is None else self._words


def test_the_tags_of_a_job_are_fixed_at_dispatch_and_shown(
    registry: Registry, serializer: Serializer, envelope_of: Callable[[Job], Envelope]
) -> None:
    registry.register("tagged")(Tagged)

    assert serializer.describe(envelope_of(Tagged(7)))["tags"] == ["customer:7", "mail"]


@pytest.mark.parametrize("tags", ["mail", [7], [None]])
def test_tags_that_are_no_list_of_strings_are_refused(registry: Registry, serializer: Serializer, tags: object) -> None:
    registry.register("tagged")(Tagged)

    with pytest.raises(UnserializableJob, match=r"tags\(\) must give strings"):
        serializer.encode(Tagged(7, tags))
