"""The parameters of a function, looked at once, so that binding a call of it is quick."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Parameters:
    """Binds calls as `inspect.Signature` does. What is not plain is left to it, and so is what does not fit."""

    def __init__(self, signature: inspect.Signature) -> None:
        parameters = signature.parameters.values()
        self._signature = signature
        self._names = tuple(signature.parameters)
        self._known = frozenset(self._names)
        self._needed = frozenset(
            each.name for each in parameters if each.default is each.empty and each.kind not in _VARIABLE
        )
        self._are_plain = all(each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters)

    def bind(self, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        """The arguments of a call by their names, in the order of the parameters; `TypeError` if they do not fit."""
        if self._are_plain and len(args) <= len(self._names):
            bound = dict(zip(self._names, args, strict=False)) | kwargs
            if len(bound) == len(args) + len(kwargs) and self.fit(bound):
                return {name: bound[name] for name in self._names if name in bound} if kwargs else bound
        return self._signature.bind(*args, **kwargs).arguments

    def fit(self, arguments: Mapping[str, object]) -> bool:
        """Whether these are all that the function needs, and none that it does not know."""
        return self._needed <= arguments.keys() <= self._known

    def missing(self, arguments: Mapping[str, object]) -> list[str]:
        """The parameters that the function cannot do without and has no argument for."""
        return [name for name in self._names if name in self._needed and name not in arguments]

    def call(self, function: Callable[..., Any], arguments: Mapping[str, object]) -> Any:
        """What a function gives for the arguments; by their places, for it may name its parameters in its own way."""
        if self._are_plain and tuple(arguments) == self._names[: len(arguments)]:
            return function(*arguments.values())
        bound = inspect.BoundArguments(self._signature, dict(arguments))
        return function(*bound.args, **bound.kwargs)
