"""What is written on the command line, as the fields of a job."""

from __future__ import annotations

import difflib
import json
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import click
import sqlalchemy as sa
from sqlalchemy.exc import NoInspectionAvailable
from sqlalchemy.orm import Mapper, Session

from ..errors import InvalidArgument, ModelNotFound, UnknownJob, UnrebuildableJob
from ..job import Job, TaskJob
from ..registry import Registry


def job_class(registry: Registry, name: str) -> type[Job]:
    """The registered job of that name, or `UnknownJob` with the names that are near."""
    try:
        return registry.job_class(name)
    except UnknownJob as error:
        raise UnknownJob(f"{error}{_nearest(name, registry.jobs())}") from None


def read_fields(pairs: Sequence[str], json_fields: str | None, load: Callable[[str], object]) -> dict[str, object]:
    """The fields by name. A value is JSON if it can be read as such, a model if it begins with @, else text."""
    fields = {} if json_fields is None else _json_object(json_fields)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{pair!r} is no KEY=VALUE.", param_hint="--field")
        if name in fields:
            raise click.BadParameter(f"The field {name!r} is given twice.", param_hint="--field")
        fields[name] = load(value) if value.startswith("@") else _value(value)
    return fields


def make_job(cls: type[Job], name: str, fields: Mapping[str, object]) -> Job:
    """The job, made as in code: by the constructor of its class, or by a call of its function."""
    try:
        if issubclass(cls, TaskJob):
            return cls(cls.signature.bind(**fields).arguments)
        return cls(**fields)
    except (TypeError, ValueError) as error:  # what constructors say of arguments that do not fit
        raise InvalidArgument(f"{name} cannot be made with these fields: {type(error).__name__}: {error}") from error


def load_model(registry: Registry, session: Callable[[], Session], text: str) -> object:
    """The row that ``@model:key`` names; the parts of a composite key have commas between them."""
    name, colon, key = text.removeprefix("@").partition(":")
    if not colon:
        raise InvalidArgument(f"{text!r} is no @model:key. A text that begins with @ is written as JSON: '\"@...\"'.")
    try:
        cls = registry.model_named(name).cls
    except UnrebuildableJob as error:
        raise InvalidArgument(str(error)) from None
    row = session().get(cls, _identity(cls, name, key))
    if row is None:
        raise ModelNotFound(f"There is no {name} with the key {key!r}.")
    return row


def _identity(cls: type, name: str, key: str) -> tuple[object, ...]:
    try:
        mapper: Mapper[Any] = sa.inspect(cls)
    except NoInspectionAvailable:
        raise InvalidArgument(f"{cls.__qualname__}, registered as {name!r}, is no mapped class.") from None
    columns = mapper.primary_key
    parts = key.split(",") if len(columns) > 1 else [key]
    if len(parts) != len(columns):
        raise InvalidArgument(f"The key of {name} has {len(columns)} parts, {key!r} has {len(parts)}.")
    try:
        return tuple(_key_part(column, part) for column, part in zip(columns, parts, strict=True))
    except ValueError:
        raise InvalidArgument(f"{key!r} is no key of {name}.") from None


def _key_part(column: sa.ColumnElement[Any], text: str) -> object:
    try:
        kind = column.type.python_type
    except NotImplementedError:
        return text
    return kind(text) if kind in (int, str, float, uuid.UUID) else text


def _json_object(text: str) -> dict[str, object]:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"That is no JSON: {error}.", param_hint="--json-fields") from None
    if not isinstance(fields, dict):
        raise click.BadParameter("It must be a JSON object of fields.", param_hint="--json-fields")
    return fields


def _value(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _nearest(name: str, known: Collection[str]) -> str:
    near = difflib.get_close_matches(name, known, n=3)
    return f" Near are {', '.join(near)}." if near else ""
