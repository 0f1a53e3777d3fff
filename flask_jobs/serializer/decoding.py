"""JSON to values. Whatever is stored, it raises nothing but `Unfit`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..errors import UnrebuildableJob
from ..job import rebuild
from ..registry import Registry
from .annotations import Annotations
from .codec import DEPTH, JSON, MISREAD, READERS, Reference, Unfit, step

_DEPTH = 2 * DEPTH
"""What is stored must be read, whatever once counted as a level; this only keeps rubbish from filling the stack."""

Scope = tuple[type, str]
"""A class and the field of it whose annotation counts."""


class Decoder:
    """Reads the values of one job. `loaded` holds the rows that it refers to."""

    def __init__(self, registry: Registry, annotations: Annotations, loaded: Mapping[Reference, object]) -> None:
        self._registry = registry
        self._annotations = annotations
        self._loaded = loaded

    def fields(self, owner: type, raw: Mapping[str, JSON], depth: int = 0) -> dict[str, object]:
        """The fields of a job or dataclass, or `Unfit` with the place of what cannot be read."""
        fields = {}
        for field, stored in raw.items():
            try:
                fields[field] = self._value(stored, depth, (owner, field))
            except Unfit as unfit:
                unfit.stands_in(f".{field}" if depth else field)
                raise
        return fields

    def _value(self, raw: JSON, depth: int, scope: Scope) -> Any:
        cls = type(raw)
        if cls is dict:
            return self._dict(raw, depth, scope)
        if cls is list:
            return self._items(raw, depth, scope)
        if cls is float and not math.isfinite(raw):
            raise Unfit("is a number too large.")
        return raw

    def _items(self, raw: list[JSON], depth: int, scope: Scope) -> list[object]:
        deeper = _enter(depth)
        items: list[object] = []
        try:
            for stored in raw:
                items.append(self._value(stored, deeper, scope))
        except Unfit as unfit:
            unfit.stands_in(f"[{len(items)}]")
            raise
        return items

    def _dict(self, raw: dict[str, JSON], depth: int, scope: Scope) -> Any:
        tag = next((key for key in raw if key.startswith("$")), None)
        if tag is not None:
            return self._tagged(tag, raw, depth, scope)
        deeper = _enter(depth)
        items: dict[str, object] = {}
        key: object = None
        try:
            for key, stored in raw.items():
                items[key] = self._value(stored, deeper, scope)
        except Unfit as unfit:
            unfit.stands_in(step(key))
            raise
        return items

    def _tagged(self, tag: str, raw: dict[str, JSON], depth: int, scope: Scope) -> Any:
        read, parted = READERS.get(tag), _PARTED.get(tag)
        if len(raw) != 1 or (read is None and parted is None):
            raise Unfit("is written in a way that this code does not know.")
        try:
            return parted(self, raw[tag], depth, scope) if parted else read(raw[tag])  # type: ignore[misc]  # one is
        except Unfit:
            raise
        except Exception:  # a member of a set is hashed and compared, and that may raise anything
            raise Unfit(f"is no value of the kind {tag[1:]}.") from None  # other messages may quote the value

    def _tuple(self, raw: JSON, depth: int, scope: Scope) -> tuple[object, ...]:
        return tuple(self._items(_list(raw), depth, scope))

    def _set(self, raw: JSON, depth: int, scope: Scope) -> set[object]:
        return set(self._items(_list(raw), depth, scope))

    def _frozenset(self, raw: JSON, depth: int, scope: Scope) -> frozenset[object]:
        return frozenset(self._items(_list(raw), depth, scope))

    def _pairs(self, raw: JSON, depth: int, scope: Scope) -> dict[object, object]:
        deeper = _enter(depth)
        return {
            self._value(key, deeper, scope): self._value(stored, deeper, scope)
            for key, stored in map(_pair, _list(raw))
        }

    def _model(self, raw: JSON, depth: int, scope: Scope) -> object:
        return self._loaded[_reference(raw)]

    def _enum(self, raw: JSON, depth: int, scope: Scope) -> object:
        name, stored = _pair(raw)
        cls = _named(name, self._annotations.stored(*scope).enums)
        value = self._value(stored, _enter(depth), scope)
        try:
            return cls(value)
        except Exception:  # `_missing_` is the user's own, and may raise anything
            raise Unfit(f"is no member of {cls.__qualname__} any more.") from None

    def _dataclass(self, raw: JSON, depth: int, scope: Scope) -> object:
        name, stored = _pair(raw)
        cls = _named(name, self._annotations.stored(*scope).dataclasses)
        fields = self.fields(cls, _object(stored), _enter(depth))
        try:
            return rebuild(cls, fields)
        except UnrebuildableJob as error:
            raise Unfit(f"cannot be rebuilt: {error}") from error

    def _by_hand(self, raw: JSON, depth: int, scope: Scope) -> object:
        name, stored = _pair(raw)
        codec = self._registry.codec_named(_text(name))
        if codec is None:
            raise Unfit(f"needs the codec {name!r}, which is not registered.")
        plain = self._value(stored, _enter(depth), scope)
        try:
            return codec.decode(plain)
        except Exception as error:  # it is the user's own function, and may raise anything
            raise Unfit(f"does not fit: decode of the codec {codec.name!r} raised.") from error


_PARTED: dict[str, Callable[[Decoder, JSON, int, Scope], Any]] = {
    "$tuple": Decoder._tuple,
    "$set": Decoder._set,
    "$frozenset": Decoder._frozenset,
    "$dict": Decoder._pairs,
    "$model": Decoder._model,
    "$enum": Decoder._enum,
    "$data": Decoder._dataclass,
    "$codec": Decoder._by_hand,
}


def references_in(raw: JSON) -> Iterator[Reference]:
    """All references to rows, wherever they stand."""
    left = [raw]
    while left:
        stored = left.pop()
        if isinstance(stored, list):
            left.extend(stored)
        elif isinstance(stored, dict) and "$model" in stored:
            yield _reference_or_unfit(stored["$model"])
        elif isinstance(stored, dict):
            left.extend(stored.values())


def _reference_or_unfit(raw: JSON) -> Reference:
    try:
        return _reference(raw)
    except MISREAD:
        raise Unfit("holds something that is no reference to a row.") from None


def _reference(raw: JSON) -> Reference:
    name, identity = _pair(raw)
    reference = Reference(_text(name), tuple(_part(part) for part in _list(identity)))
    hash(reference)
    return reference


def _part(raw: JSON) -> Any:
    if isinstance(raw, dict):
        ((tag, stored),) = raw.items()
        return READERS[tag](stored)
    return raw


def _named(name: JSON, candidates: Iterable[type]) -> Any:
    """The class of that name, or the only one there is, for a class may be renamed."""
    found = list(candidates)
    fitting = [cls for cls in found if cls.__name__ == name] or found
    if len(fitting) != 1:
        raise Unfit("is of a class that the annotation of its field does not name.")
    return fitting[0]


def _enter(depth: int) -> int:
    if depth >= _DEPTH:
        raise Unfit("is nested too deep.")
    return depth + 1


def _list(raw: JSON) -> list[JSON]:
    if type(raw) is not list:
        raise TypeError("expected a list")
    return raw


def _pair(raw: JSON) -> tuple[JSON, JSON]:
    first, second = _list(raw)
    return first, second


def _object(raw: JSON) -> dict[str, JSON]:
    if type(raw) is not dict:
        raise TypeError("expected an object")
    return raw


def _text(raw: JSON) -> str:
    if type(raw) is not str:
        raise TypeError("expected a string")
    return raw
