"""A job's history and the record of its failure: bounded, storable, and safe whatever an error says."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Sequence

from .envelope import Entry, ErrorRecord, Event
from .tracebacks import of_the_application

ENTRIES = 20
"""How many of the latest entries are kept."""

CHARACTERS = 64_000
"""How much of a message or traceback is kept; a mark says what is missing."""

CAUSES = 20
"""How many causes of an error are named."""


def extended(history: Sequence[Entry], *entries: Entry) -> tuple[Entry, ...]:
    """The history with these entries added, the oldest ones dropped beyond the bound."""
    return (*history, *entries)[-ENTRIES:]


def trailing(history: Sequence[Entry], event: Event) -> int:
    """How many entries of this kind stand at the end without another between them."""
    count = 0
    for entry in reversed(history):
        if entry.event is not event:
            break
        count += 1
    return count


def dump(history: Sequence[Entry]) -> str | None:
    """The history as text for a store; None for an empty one."""
    if not history:
        return None
    return json.dumps([[e.event.value, e.at, e.attempt, e.reason, e.until] for e in history])


def load(text: str | None) -> tuple[Entry, ...]:
    """The history from a store's text. One that cannot be read is empty, for it must keep no job from being run."""
    if not text:
        return ()
    try:
        return tuple(_entry(*row) for row in json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return ()


def _entry(event: str, at: float, attempt: int, reason: str, until: float | None) -> Entry:
    numbers = (at, attempt) if until is None else (at, attempt, until)
    if not isinstance(reason, str) or not all(isinstance(number, int | float) for number in numbers):
        raise TypeError("no entry of a history")
    return Entry(Event(event), at, attempt, reason, until)


def storable(text: str) -> str:
    """The text without what a store cannot hold, shown instead of dropped, cut at the bound with a mark."""
    clean = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
    if len(clean) <= CHARACTERS:
        return clean
    return f"{clean[:CHARACTERS]} … [{len(clean) - CHARACTERS} more characters]"


def summary(error: BaseException) -> str:
    """The error in one line: its type and message."""
    return storable(f"{_type_name(error)}: {_message(error)}").splitlines()[0][:500]


def describe(error: BaseException) -> ErrorRecord:
    """The error in storable form. Never raises, whatever the error's own methods do."""
    return ErrorRecord(
        type=storable(_type_name(error)),
        message=storable(_message(error)),
        traceback=storable(_traceback(error)),
        causes=tuple(summary(cause) for cause in _causes(error)),
    )


def _type_name(error: BaseException) -> str:
    cls = type(error)
    return _said(
        lambda: cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}",
        "<an error whose type has no name>",
    )


def _message(error: BaseException) -> str:
    return _said(lambda: str(error), f"<str() of {_type_name(error).rpartition('.')[2]} raises>")


def _traceback(error: BaseException) -> str:
    # Formatting calls str() of every cause.
    frames = of_the_application(error.__traceback__)
    whole = _said(lambda: "".join(traceback.format_exception(type(error), error, frames, limit=60)), "")
    return whole or "".join(traceback.format_tb(frames, limit=60))


def _said(by: Callable[[], str], otherwise: str) -> str:
    """What the error's own methods say. They may raise anything, and the record must be made all the same."""
    try:
        return by()
    except BaseException:  # SystemExit as well, which would end the worker
        return otherwise


def _causes(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    seen = {id(error)}
    cause = error.__cause__ or error.__context__
    while cause is not None and len(causes) < CAUSES and id(cause) not in seen:
        causes.append(cause)
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return causes
