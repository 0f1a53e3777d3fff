"""How the values are made that travel with each job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """A dataclass that is frozen to the type checker, with slots; equal and hashed by its fields.

    At run time nothing keeps anybody from changing it: what `frozen=True` does for that makes each new one take five
    times as long, and several are made of each job.
    """
    make: Callable[[type[T]], type[T]] = dataclass(slots=True, unsafe_hash=True)
    return make(cls)
