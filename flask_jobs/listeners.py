"""Receivers of signals that run as jobs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from blinker import NamedSignal, Signal
from flask import Flask, current_app, has_app_context
from werkzeug.local import LocalProxy

from .dispatched import Options
from .errors import InvalidArgument, UnknownJob
from .events import OWN_SIGNALS, worker_idle
from .job import Task
from .registry import Registry

if TYPE_CHECKING:
    from .state import AppState

P = ParamSpec("P")
R = TypeVar("R")

# What our own signals bring for receivers of this process, and no store takes.
_LOCAL = frozenset({"job", "error"})

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Listeners:
    """The listeners of one `Jobs` object, which live as long as it does.

    `state_of` gives what an app (None: the current one) owns of this object, or None where another one or none is
    connected to it.
    """

    def __init__(self, registry: Registry, state_of: Callable[[Flask | None], AppState | None]) -> None:
        self._registry = registry
        self._state_of = state_of
        self._by_name: dict[str, _Listener] = {}

    def listen(
        self, signal: Signal, name: str, *, sender: object, aliases: Sequence[str], options: Mapping[str, Any]
    ) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Make a task of a function, and dispatch it whenever the signal is sent."""
        if not isinstance(signal, Signal):
            raise InvalidArgument(
                f"jobs.listen takes a blinker signal and a name, as jobs.listen(user_logged_in, {name!r}); the first "
                f"one given is of type {type(signal).__name__}."
            )
        if signal is worker_idle:
            raise InvalidArgument(
                "A job cannot listen to worker_idle: it would end the idleness that it tells of, and so without end. "
                "Connect a plain receiver: worker_idle.connect(...)."
            )
        become_task = self._registry.task(name, aliases=aliases, **options)

        def add(function: Callable[P, R]) -> Task[P, R]:
            task = become_task(function)
            listener = _Listener(self, signal, name, task, _taken(name, task.job.signature, _is_own(signal)))
            self._by_name[name] = listener  # in place of an earlier one of a module that was loaded anew
            signal.connect(listener, sender)
            return task

        return add

    def state_for(self, sender: object) -> AppState | None:
        """What belongs to the app that sends, else to the current one."""
        return self._state_of(sender if isinstance(sender, Flask) else None)

    def is_echo(self, signal: Signal, facts: Mapping[str, object]) -> bool:
        """Whether the signal tells of the job of a listener to signals of ours: to answer those would never end."""
        name = facts.get("job_name")
        if not _is_own(signal) or not isinstance(name, str):
            return False
        try:
            known = self._registry.name_of(self._registry.job_class(name))
        except UnknownJob:
            return False
        return known in self._by_name and _is_own(self._by_name[known].signal)


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a listener takes of a signal: the sender under a name, and arguments by name or all of them."""

    sender: str
    required: frozenset[str]
    optional: frozenset[str]
    takes_all: bool

    def of(self, facts: Mapping[str, object]) -> dict[str, object]:
        """The arguments that it takes of those that came."""
        return {key: value for key, value in facts.items() if self.takes_all or key in self.required | self.optional}


class _Listener:
    """What is connected to a signal: dispatches the task with what the signal brings."""

    def __init__(self, listeners: Listeners, signal: Signal, name: str, task: Task[..., Any], taken: _Taken) -> None:
        self.signal = signal
        self._listeners = listeners
        self._name = name
        self._task = task
        self._taken = taken

    def __call__(self, sender: Any, /, **facts: object) -> None:
        sender = _itself(sender)
        state = self._listeners.state_for(sender)
        if state is None or self._listeners.is_echo(self.signal, facts):
            return
        self._check(facts)
        with _context_of(state):
            job = self._task.job
            first = sender if state.serializer.can_store(job, self._taken.sender, sender) else None
            state.dispatcher.dispatch(self._task(first, **self._taken.of(_storable(self.signal, facts))), Options())

    def _check(self, facts: Mapping[str, object]) -> None:
        if self._taken.sender in facts:
            raise InvalidArgument(
                f"The listener {self._name!r} takes the sender as {self._taken.sender!r}, which {_title(self.signal)} "
                f"brings beside its sender. Write the sender first: def ...(sender, {self._taken.sender})."
            )
        missing = sorted(self._taken.required - facts.keys())
        if missing:
            raise InvalidArgument(
                f"{_title(self.signal)} does not bring what the listener {self._name!r} takes: {', '.join(missing)}. "
                f"It brings {', '.join(sorted(facts)) or 'nothing but its sender'}."
            )


def _taken(name: str, signature: inspect.Signature, is_own: bool) -> _Taken:
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in _POSITIONAL:
        raise InvalidArgument(
            f"The listener {name!r} must take the sender first, as every receiver of a signal does: "
            "def ...(sender, ...)."
        )
    first, rest = parameters[0], parameters[1:]
    named = [p for p in rest if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    required = frozenset(p.name for p in named if p.default is p.empty)
    optional = frozenset(p.name for p in named) - required
    if is_own and (local := sorted(_LOCAL & (required | optional))):
        raise InvalidArgument(
            f"The listener {name!r} cannot take {' and '.join(local)}: that is there for receivers in the same "
            "process, and cannot be stored. Take job_id and job_name, or connect a plain receiver."
        )
    return _Taken(first.name, required, optional, any(p.kind is p.VAR_KEYWORD for p in rest))


def _storable(signal: Signal, facts: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in facts.items() if not (_is_own(signal) and key in _LOCAL)}


def _is_own(signal: Signal) -> bool:
    return any(own is signal for own in OWN_SIGNALS)


def _itself(sender: Any) -> Any:
    return sender._get_current_object() if isinstance(sender, LocalProxy) else sender


def _context_of(state: AppState) -> AbstractContextManager[None]:
    """The app's context: the one that is there, whose transaction a dispatch waits for, else one of its own."""
    is_there = has_app_context() and _itself(current_app) is state.app
    return nullcontext() if is_there else state.fresh()


def _title(signal: Signal) -> str:
    return f"the signal {signal.name!r}" if isinstance(signal, NamedSignal) else "the signal"
