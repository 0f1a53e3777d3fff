from __future__ import annotations

from hashlib import sha256
from random import Random
from typing import Any

import pytest

from flask_jobs.envelope import Envelope
from flask_jobs.errors import UnserializableJob
from flask_jobs.ids import new_id
from flask_jobs.registry import Registry
from flask_jobs.serializer import ModelReferences, Serializer, Signer
from tests.values import Echo, no_session


@pytest.fixture
def serializer() -> Serializer:
    registry = Registry()
    registry.register("echo")(Echo)
    return Serializer(
        registry, signer=Signer("key"), references=ModelReferences(registry, no_session), max_payload=1_000_000
    )


def letters(size: int) -> str:
    return Random(size).randbytes(size // 2).hex()


@pytest.mark.parametrize("size", [60_000, 70_000, 999_000])
def test_f39_a_payload_below_the_limit_stays_whole(serializer: Serializer, size: int) -> None:
    name, body = serializer.encode(Echo(letters(size)))

    job: Any = serializer.decode(Envelope(new_id(), name, "default", body))

    assert sha256(job.value.encode()).digest() == sha256(letters(size).encode()).digest()


def test_f39_a_payload_above_the_limit_is_refused_with_both_sizes(serializer: Serializer) -> None:
    with pytest.raises(UnserializableJob, match=r"echo takes 1100\d\d\d bytes, and JOBS_MAX_PAYLOAD allows 1000000 "):
        serializer.encode(Echo(letters(1_100_000)))
