"""A job into the name and the body of an envelope, and back.

The body is ``<json>.<signature>``; the JSON holds the format's version ``v``, the job's name, the job's version
``jv``, its fields and metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, TypedDict

from ..envelope import Envelope
from ..errors import MalformedEnvelope, NewerVersion, UnknownJob, UnrebuildableJob, UnserializableJob
from ..job import Job, fields_of, rebuild, require_job
from ..registry import Registry
from .annotations import Annotations
from .codec import JSON, References, Unfit
from .decoding import Decoder, references_in
from .describing import HIDDEN, names_in, readable
from .encoding import Encoder
from .signing import Signing

FORMAT = 1
"""The version of the body's layout."""

_dumps = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
_loads = json.JSONDecoder().raw_decode


class Description(TypedDict):
    """A stored job for operators. `problem` says why it cannot be read, if it cannot."""

    job: str
    version: int | None
    tags: list[str]
    fields: dict[str, str]
    problem: str | None


@dataclass(slots=True)
class _Payload:
    """The signed part of a body. `refers`: it may hold references to rows."""

    job: str
    version: int
    fields: dict[str, JSON]
    tags: list[str]
    refers: bool


class Serializer:
    """Writes jobs and reads them, with all names of one registry. `max_payload` is in bytes."""

    def __init__(
        self, registry: Registry, *, signer: Signing, references: References, max_payload: int = 1_048_576
    ) -> None:
        self._registry = registry
        self._signer = signer
        self._references = references
        self._max_payload = max_payload
        self._annotations = Annotations()

    def encode(self, job: Job) -> tuple[str, str]:
        """The registered name and the signed body of a job.

        Raises `NotRegistered` or `UnserializableJob`, which names the place of the value, never the value.
        """
        require_job(job)
        cls = type(job)
        name = self._registry.name_of(cls)
        fields = _dumps(self._written(name, job))
        meta = "{}" if cls.tags is Job.tags else _dumps({"tags": _tags(name, job)})
        # A registered name needs no escapes.
        text = f'{{"v":{FORMAT},"job":"{name}","jv":{cls.version},"fields":{fields},"meta":{meta}}}'
        body = self._signer.sign(text)
        if len(body) > self._max_payload:
            raise self._too_large(name, f"takes {len(body)} bytes")
        return name, body

    def can_store(self, cls: type[Job], field: str, value: object) -> bool:
        """Whether the value is of a kind that this field of a job can hold.

        A row is, also if it cannot be referred to: that is for `encode` to say.
        """
        encoder = Encoder(self._registry, self._references, self._annotations, room=16 * self._max_payload)
        try:
            encoder.fields(cls, {field: value})
        except Unfit as unfit:
            return encoder.is_full or unfit.error is not None
        return True

    def decode(self, envelope: Envelope) -> Job:
        """The job of an envelope, with its rows loaded.

        Raises `MalformedEnvelope`, `UnknownJob`, `NewerVersion`, `UnrebuildableJob` or `ModelNotFound`, and
        else only what the database raises while rows are loaded.
        """
        payload = self._payload(envelope)
        cls = self._registry.job_class(payload.job)
        if payload.version > cls.version:
            raise NewerVersion(
                f"{payload.job} was stored with version {payload.version}, this code knows {cls.version}: a worker "
                "with newer code can run it."
            )
        try:
            fields = self._read(cls, payload)
            return rebuild(cls, self._upcast(cls, payload, fields))
        except Unfit as unfit:
            raise UnrebuildableJob(
                f"{payload.job} cannot be rebuilt: {unfit.place} {unfit.reason}"
            ) from unfit.__cause__
        except UnrebuildableJob as error:
            raise UnrebuildableJob(f"{payload.job} cannot be rebuilt: {error}") from error.__cause__

    def describe(self, envelope: Envelope) -> Description:
        """What an operator may see of an envelope. Never raises for what is stored; loads and builds nothing.

        Hidden are the job's `sensitive` fields, and all fields if they cannot be told: the class is unknown, or
        has sensitive fields and was stored in another version, where they may have had other names.
        """
        try:
            payload = self._payload(envelope)
        except MalformedEnvelope as error:
            return Description(job=envelope.name, version=None, tags=[], fields={}, problem=str(error))
        try:
            hidden = self._hidden(self._registry.job_class(payload.job), payload)
            problem = None
        except UnknownJob as error:
            hidden, problem = set(payload.fields), str(error)
        fields = {name: HIDDEN if name in hidden else readable(raw) for name, raw in payload.fields.items()}
        return Description(job=payload.job, version=payload.version, tags=payload.tags, fields=fields, problem=problem)

    def _written(self, name: str, job: Job) -> dict[str, JSON]:
        # More room than is allowed, so that the message can name the true size of what is only somewhat too large.
        encoder = Encoder(self._registry, self._references, self._annotations, room=16 * self._max_payload)
        try:
            return encoder.fields(type(job), fields_of(job))
        except Unfit as unfit:
            if encoder.is_full:
                raise self._too_large(name, f"takes more than {16 * self._max_payload} bytes") from None
            _refuse(name, job, unfit)

    def _too_large(self, name: str, takes: str) -> UnserializableJob:
        return UnserializableJob(
            f"{name} {takes}, and JOBS_MAX_PAYLOAD allows {self._max_payload} bytes. Keep large data in the database "
            "or a file, and give the job its key or path."
        )

    def _payload(self, envelope: Envelope) -> _Payload:
        payload = _parsed(self._signer.verify(envelope.body))
        if payload.job != envelope.name:
            raise MalformedEnvelope(
                f"The envelope says {envelope.name!r}, but the signed payload in it is of the job {payload.job!r}."
            )
        return payload

    def _read(self, cls: type[Job], payload: _Payload) -> dict[str, object]:
        wanted = set(references_in(payload.fields)) if payload.refers else set()
        rows = self._references.load(wanted) if wanted else {}
        return Decoder(self._registry, self._annotations, rows).fields(cls, payload.fields)

    def _upcast(self, cls: type[Job], payload: _Payload, fields: dict[str, object]) -> dict[str, object]:
        for version in range(payload.version, cls.version):
            step = self._registry.upcaster(payload.job, version)
            if step is None:
                raise UnrebuildableJob(
                    f"it was stored with version {payload.version}, and no upcaster leads from version {version} to "
                    f"{version + 1}. Register one with @jobs.upcast({payload.job!r}, {version})."
                )
            try:
                fields = step(fields)
            except Exception as error:  # the upcaster is the user's own, and may raise anything
                raise UnrebuildableJob(f"its upcaster from version {version} raised {type(error).__name__}.") from error
            if not isinstance(fields, dict) or not all(isinstance(name, str) for name in fields):
                raise UnrebuildableJob(f"its upcaster from version {version} gave no dict of fields.")
        return fields

    def _hidden(self, cls: type[Job], payload: _Payload) -> set[str]:
        declared = (cls.sensitive,) if isinstance(cls.sensitive, str) else tuple(cls.sensitive)
        sensitive = {*declared, *names_in(payload.fields.get("sensitive"))}
        return set(payload.fields) if sensitive and payload.version != cls.version else sensitive


def _tags(name: str, job: Job) -> list[str]:
    tags = job.tags()
    words = [] if isinstance(tags, str) else list(tags)
    if isinstance(tags, str) or not all(type(word) is str for word in words):
        raise UnserializableJob(f"{name} cannot be stored: tags() must give strings, such as ['customer:7'].")
    return words


def _refuse(name: str, job: Job, unfit: Unfit) -> NoReturn:
    sensitive = (job.sensitive,) if isinstance(job.sensitive, str) else job.sensitive
    place = unfit.field if unfit.field in sensitive else unfit.place  # the keys of a dict are values, too
    raise (unfit.error or UnserializableJob)(f"{name} cannot be stored: {place} {unfit.reason}") from unfit.__cause__


def _parsed(text: str) -> _Payload:
    try:
        raw, end = _loads(text)
    except (ValueError, RecursionError):
        end = -1
    if end != len(text):
        raise MalformedEnvelope("The payload is no JSON: it was cut, or not written by this library.")
    if type(raw) is not dict:
        raise MalformedEnvelope("The payload is no JSON object, so it was not written by this library.")
    version = raw.get("v")
    if type(version) is not int or version < 1:
        raise MalformedEnvelope("The payload has no format version, so it was not written by this library.")
    if version > FORMAT:
        raise MalformedEnvelope(f"The payload has the format version {version}; this code reads up to {FORMAT}.")
    return _checked(raw, refers='"$model"' in text)


def _checked(raw: Mapping[str, JSON], *, refers: bool) -> _Payload:
    name, version, fields = raw.get("job"), raw.get("jv"), raw.get("fields")
    if type(name) is not str or type(version) is not int or version < 1 or type(fields) is not dict:
        raise MalformedEnvelope("The payload lacks its job's name, version or fields.")
    meta = raw.get("meta")
    tags = meta.get("tags") if type(meta) is dict else None
    words = [tag for tag in tags if type(tag) is str] if type(tags) is list else []
    return _Payload(name, version, fields, words, refers)
