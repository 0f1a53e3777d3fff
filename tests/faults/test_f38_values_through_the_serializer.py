from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flask_jobs.envelope import Envelope
from flask_jobs.errors import UnserializableJob
from flask_jobs.ids import new_id
from flask_jobs.registry import Registry
from flask_jobs.serializer import ModelReferences, Serializer, Signer
from tests.values import REFUSED, VALUES, Echo, no_session, same


@pytest.fixture
def serializer() -> Serializer:
    registry = Registry()
    registry.register("echo")(Echo)
    return Serializer(registry, signer=Signer("key"), references=ModelReferences(registry, no_session))


@pytest.mark.parametrize(("label", "make"), VALUES, ids=[label for label, _ in VALUES])
def test_f38_an_argument_comes_back_equal_in_value_and_type(
    serializer: Serializer, label: str, make: Callable[[], object]
) -> None:
    name, body = serializer.encode(Echo(make()))

    job: Any = serializer.decode(Envelope(new_id(), name, "default", body))

    assert type(job) is Echo
    assert same(job.value, make())


@pytest.mark.parametrize(("label", "make"), REFUSED, ids=[label for label, _ in REFUSED])
def test_f38_anything_else_raises_at_dispatch_naming_the_argument(
    serializer: Serializer, label: str, make: Callable[[], object]
) -> None:
    with pytest.raises(UnserializableJob, match=r"^echo cannot be stored: value"):
        serializer.encode(Echo(make()))


def test_f38_the_payload_carries_a_format_version(serializer: Serializer) -> None:
    _, body = serializer.encode(Echo(1))

    assert body.startswith('{"v":1,"job":"echo","jv":1,')
