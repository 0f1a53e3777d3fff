"""Values to JSON."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Any

from ..errors import NotRegistered, UnserializableJob
from ..job import attributes_of
from ..registry import Registry, ValueCodec, kebab
from .annotations import Annotations
from .codec import BY_CLASS, DEPTH, JSON, References, Unfit, is_plain, step, write_int, write_torn

Scope = tuple[type, str]
"""A class and the field of it whose annotation counts."""


class Encoder:
    """Writes the values of one job. `room` is the number of characters after which it gives up."""

    def __init__(self, registry: Registry, references: References, annotations: Annotations, room: int) -> None:
        self._registry = registry
        self._references = references
        self._annotations = annotations
        self._room = room

    @property
    def is_full(self) -> bool:
        """Whether it gave up because there was no more room."""
        return self._room < 0

    def fields(self, owner: type, fields: Mapping[str, object], depth: int = 0) -> dict[str, JSON]:
        """The fields of a job or dataclass, or `Unfit` with the place of the value that cannot be stored."""
        written = {}
        for field, value in fields.items():
            try:
                written[field] = self._value(value, depth, (owner, field))
            except Unfit as unfit:
                unfit.stands_in(f".{field}" if depth else field)
                raise
        return written

    def _value(self, value: object, depth: int, scope: Scope) -> JSON:
        cls: type = type(value)
        if cls is str:
            return self._text(value)  # type: ignore[arg-type]  # its class is str
        if cls is int:
            return write_int(value)  # type: ignore[arg-type]  # its class is int
        if value is None or cls is bool:
            return value
        write = _PARTED.get(cls)
        if write is not None:
            return write(self, value, depth, scope)
        return self._tagged(value, cls, depth, scope)

    def _tagged(self, value: Any, cls: type, depth: int, scope: Scope) -> JSON:
        codec = self._registry.codec_of(cls)
        if codec is not None:
            return self._by_hand(codec, value, depth, scope)
        kind = BY_CLASS.get(cls)
        if kind is not None:
            return {kind.tag: kind.write(value)}
        if isinstance(value, Enum):
            return self._enum(value, depth, scope)
        return self._object(value, depth, scope)

    def _object(self, value: object, depth: int, scope: Scope) -> JSON:
        try:
            reference = self._references.identify(value)
        except (NotRegistered, UnserializableJob) as error:
            raise Unfit(str(error), type(error)) from error
        if reference is not None:
            return {"$model": [reference.model, [self._value(part, DEPTH, scope) for part in reference.identity]]}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._dataclass(value, depth, scope)
        raise Unfit(_no_kind(value))

    def _text(self, value: str) -> JSON:
        self._spend(len(value))
        return value if is_plain(value) else write_torn(value)

    def _bytes(self, value: bytes, depth: int, scope: Scope) -> JSON:
        self._spend(len(value))
        return {"$bytes": BY_CLASS[bytes].write(value)}

    def _float(self, value: float, depth: int, scope: Scope) -> JSON:
        if not math.isfinite(value):
            raise Unfit("is a float that is not finite; such a number cannot be stored.")
        return value

    def _list(self, value: list[object], depth: int, scope: Scope) -> JSON:
        return self._items(value, depth, scope)

    def _tuple(self, value: tuple[object, ...], depth: int, scope: Scope) -> JSON:
        return {"$tuple": self._items(value, depth, scope)}

    def _set(self, value: set[object], depth: int, scope: Scope) -> JSON:
        return {"$set": self._members(value, depth, scope)}

    def _frozenset(self, value: frozenset[object], depth: int, scope: Scope) -> JSON:
        return {"$frozenset": self._members(value, depth, scope)}

    def _items(self, value: Collection[object], depth: int, scope: Scope) -> list[JSON]:
        deeper = self._enter(depth, len(value))
        written: list[JSON] = []
        try:
            for item in value:
                written.append(self._value(item, deeper, scope))
        except Unfit as unfit:
            unfit.stands_in(f"[{len(written)}]")
            raise
        return written

    def _members(self, value: Collection[object], depth: int, scope: Scope) -> list[JSON]:
        deeper = self._enter(depth, len(value))
        try:
            return [self._value(member, deeper, scope) for member in value]
        except Unfit as unfit:
            unfit.stands_in("[…]")  # members of a set have no place
            raise

    def _dict(self, value: dict[object, object], depth: int, scope: Scope) -> JSON:
        deeper = self._enter(depth, len(value))
        pairs: list[list[JSON]] = []
        is_escaped = False
        key: object = None
        try:
            for key, item in value.items():
                if type(key) is str and not key.startswith("$") and is_plain(key):
                    self._spend(len(key))
                    pairs.append([key, self._value(item, deeper, scope)])
                else:
                    is_escaped = True
                    pairs.append([self._key(key, deeper, scope), self._value(item, deeper, scope)])
        except Unfit as unfit:
            unfit.stands_in(step(key))
            raise
        return {"$dict": pairs} if is_escaped else dict(pairs)

    def _key(self, key: object, depth: int, scope: Scope) -> JSON:
        cls: type = type(key)
        if key is None or cls in _SCALARS or isinstance(key, Enum):
            return self._value(key, depth, scope)
        raise Unfit(f"has a key of type {cls.__qualname__}; a key may be of any kind of value that has no parts.")

    def _enum(self, value: Enum, depth: int, scope: Scope) -> JSON:
        cls = type(value)
        self._check_annotated(cls, self._annotations.of(*scope).enums, scope)
        if not _is_found_again(value):
            raise Unfit(f"is a member of {cls.__qualname__} that its value does not lead back to. {_advice(cls)}")
        try:
            return {"$enum": [cls.__name__, self._value(value.value, depth, scope)]}
        except Unfit as unfit:
            unfit.stands_in(".value")
            raise

    def _dataclass(self, value: object, depth: int, scope: Scope) -> JSON:
        cls: type = type(value)
        self._check_annotated(cls, self._annotations.of(*scope).dataclasses, scope)
        attributes = attributes_of(value)
        return {"$data": [cls.__name__, self.fields(cls, attributes, self._enter(depth, len(attributes)))]}

    def _check_annotated(self, cls: type, candidates: Iterable[type], scope: Scope) -> None:
        namesakes = [candidate for candidate in candidates if candidate.__name__ == cls.__name__]
        if cls not in namesakes:
            unclear = self._annotations.of(*scope).unclear
            why = "uses names that do not exist at run time" if unclear else "does not name it"
            raise Unfit(
                f"is of type {cls.__qualname__}, but the annotation of {scope[1]!r} in {scope[0].__qualname__} {why}. "
                f"Annotate the field, such as `{scope[1]}: {cls.__name__}`, or: {_advice(cls)}"
            )
        if len(namesakes) > 1:
            raise Unfit(f"may be one of {len(namesakes)} classes with the name {cls.__name__}. {_advice(cls)}")

    def _by_hand(self, codec: ValueCodec, value: object, depth: int, scope: Scope) -> JSON:
        deeper = self._enter(depth, 1)
        try:
            plain = codec.encode(value)
        except Exception as error:  # it is the user's own function, and may raise anything
            raise Unfit(
                f"is of type {codec.cls.__qualname__}, and encode of its codec {codec.name!r} raised."
            ) from error
        try:
            return {"$codec": [codec.name, self._value(plain, deeper, scope)]}
        except Unfit as unfit:
            unfit.stands_in(f"→{codec.name}")
            raise

    def _enter(self, depth: int, parts: int) -> int:
        if depth >= DEPTH:
            raise Unfit(f"is nested deeper than {DEPTH} levels, or holds itself.")
        self._spend(parts)
        return depth + 1

    def _spend(self, characters: int) -> None:
        self._room -= characters
        if self._room < 0:  # the same object may stand in many places, so that the whole has no end
            raise Unfit("does not fit.")


_PARTED: dict[type, Callable[[Encoder, Any, int, Scope], JSON]] = {
    float: Encoder._float,
    bytes: Encoder._bytes,
    list: Encoder._list,
    tuple: Encoder._tuple,
    dict: Encoder._dict,
    set: Encoder._set,
    frozenset: Encoder._frozenset,
}

_SCALARS = frozenset({bool, int, float, str, *BY_CLASS})


def _is_found_again(value: Enum) -> bool:
    try:
        return type(value)(value.value) is value
    except Exception:  # `_missing_` is the user's own, and may raise anything
        return False


def _no_kind(value: object) -> str:
    cls: type = type(value)
    near = next((c.__name__ for c in cls.__mro__[1:] if c in _SCALARS or c in _PARTED), None)
    if near is not None:
        return f"is of type {cls.__qualname__}, and would come back as a plain {near}. Convert it, or: {_advice(cls)}"
    return f"is of type {cls.__qualname__}, which cannot be stored. Give the job plain values, or: {_advice(cls)}"


def _advice(cls: type) -> str:
    return f'register a codec: jobs.codec({cls.__name__}, "{kebab(cls)}", encode, decode).'
