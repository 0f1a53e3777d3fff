from __future__ import annotations

from collections.abc import Callable

import pytest

from flask_jobs.envelope import Envelope
from flask_jobs.ids import new_id
from flask_jobs.job import Job
from flask_jobs.registry import Registry
from flask_jobs.serializer import ModelReferences, Serializer, Signer
from tests.values import no_session

KEY = "a secret key of the app"


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def signer() -> Signer:
    return Signer(KEY)


@pytest.fixture
def serializer(registry: Registry, signer: Signer) -> Serializer:
    return Serializer(registry, signer=signer, references=ModelReferences(registry, no_session))


@pytest.fixture
def envelope_of(serializer: Serializer) -> Callable[[Job], Envelope]:
    def enclose(job: Job) -> Envelope:
        name, body = serializer.encode(job)
        return Envelope(new_id(), name, "default", body)

    return enclose


@pytest.fixture
def round_trip(serializer: Serializer, envelope_of: Callable[[Job], Envelope]) -> Callable[[Job], Job]:
    return lambda job: serializer.decode(envelope_of(job))
