"""A statement as a server's Python driver takes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Parameters = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Statement:
    """A compiled statement. `names` are its parameters in order, or None if they go by name."""

    text: str
    names: tuple[str, ...] | None

    def bind(self, parameters: Parameters) -> Any:
        """The parameters in the form that the server's Python driver takes."""
        if self.names is None:
            return parameters
        return tuple([parameters[name] for name in self.names])
