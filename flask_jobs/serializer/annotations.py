"""Which enums and dataclasses a field may hold, read from its annotation.

Their names alone are stored, so the annotation is what says which class is meant; no payload can name another.
"""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..job import TaskJob

if sys.version_info >= (3, 14):
    import annotationlib


@dataclass(frozen=True, slots=True)
class Candidates:
    """The classes that the annotation of a field names. `unclear`: some of it cannot be resolved at run time."""

    classes: tuple[type, ...] = ()
    unclear: bool = False

    @property
    def enums(self) -> list[type[Enum]]:
        """Those that are enums."""
        return [cls for cls in self.classes if issubclass(cls, Enum)]

    @property
    def dataclasses(self) -> list[type]:
        """Those that are dataclasses."""
        return [cls for cls in self.classes if not issubclass(cls, Enum)]

    def __or__(self, other: Candidates) -> Candidates:
        classes = tuple(dict.fromkeys((*self.classes, *other.classes)))
        return Candidates(classes, self.unclear or other.unclear)


NOTHING = Candidates()


class Annotations:
    """Reads the annotations of job classes and dataclasses, of each once.

    A field is annotated where its class declares it or where a parameter of `__init__` has its name; for the job
    of a function the parameters count.
    """

    def __init__(self) -> None:
        self._known: dict[type, Mapping[str, Candidates]] = {}

    def of(self, owner: type, field: str) -> Candidates:
        """What the field of that class may hold."""
        return self._fields(owner).get(field, NOTHING)

    def stored(self, owner: type, field: str) -> Candidates:
        """The same for a field read from a store: one that the class no longer has may hold what others do."""
        fields = self._fields(owner)
        if field in fields:
            return fields[field]
        every = NOTHING
        for candidates in fields.values():
            every |= candidates
        return every

    def _fields(self, owner: type) -> Mapping[str, Candidates]:
        found = self._known.get(owner)
        if found is None:
            found = self._known[owner] = _read(owner)
        return found


def _read(owner: type) -> dict[str, Candidates]:
    fields: dict[str, Candidates] = {}
    for annotated, names in _sources(owner):
        for field, annotation in annotated.items():
            fields[field] = fields.get(field, NOTHING) | _candidates(annotation, names)
    return fields


def _sources(owner: type) -> Iterator[tuple[Mapping[str, Any], _Names]]:
    """All annotations that say something of the class's fields, each with the names that it may use."""
    if issubclass(owner, TaskJob):
        yield _of_function(owner.function)
        return
    for cls in owner.__mro__:
        module = sys.modules.get(cls.__module__)
        yield _annotations_of(cls), _Names({**vars(cls), cls.__name__: cls, **(vars(module) if module else {})})
        constructor = inspect.unwrap(vars(cls).get("__init__", object.__init__))
        if inspect.isfunction(constructor):
            yield _of_function(constructor)


def _of_function(function: Callable[..., Any]) -> tuple[Mapping[str, Any], _Names]:
    plain = inspect.unwrap(function)
    return _annotations_of(plain), _Names(getattr(plain, "__globals__", {}))


def _annotations_of(thing: type | Callable[..., Any]) -> Mapping[str, Any]:
    if sys.version_info >= (3, 14):  # evaluated here; one name that is missing must not cost all others
        return inspect.get_annotations(thing, format=annotationlib.Format.FORWARDREF)
    return inspect.get_annotations(thing)


class _Unknown:
    """Stands for a name that an annotation uses and that does not exist at run time."""

    def __class_getitem__(cls, item: object) -> type[_Unknown]:
        return cls


class _Names(dict[str, Any]):
    """The names that an annotation may use. One that is only there for type checkers does not spoil the rest."""

    def __missing__(self, name: str) -> Any:
        return vars(builtins).get(name, _Unknown)


def _candidates(annotation: object, names: _Names) -> Candidates:
    found: list[type] = []
    try:
        holder = type("Holder", (), {"__annotations__": {"field": annotation}})
        found += _classes_in(typing.get_type_hints(holder, names, names)["field"])
    except Exception:  # an annotation is any expression, and evaluating it may raise anything
        return Candidates(unclear=True)
    usable = [cls for cls in found if issubclass(cls, Enum) or dataclasses.is_dataclass(cls)]
    return Candidates(tuple(dict.fromkeys(usable)), unclear=_Unknown in found)


def _classes_in(annotation: object) -> Iterator[type]:
    if isinstance(annotation, Enum):  # Literal[Status.PAID]
        yield type(annotation)
    if isinstance(annotation, list | tuple):  # the parameters of a Callable
        parts: tuple[object, ...] = tuple(annotation)
    else:
        parts = (*typing.get_args(annotation), *_behind(annotation))
    origin = typing.get_origin(annotation) or annotation
    if isinstance(origin, type):
        yield origin
    for part in parts:
        yield from _classes_in(part)


def _behind(annotation: object) -> list[object]:
    """What a NewType, a TypeVar or an alias made with ``type`` stands for."""
    if isinstance(annotation, type):
        return []
    names = ("__supertype__", "__bound__", "__value__")
    return [getattr(annotation, name) for name in names if getattr(annotation, name, None) is not None]
