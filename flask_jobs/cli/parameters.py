"""What stands on the command line, by the rules of the library's own calls. What breaks them is a usage error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

from .. import validation
from ..errors import InvalidArgument
from ..stored import State
from . import documents

T = TypeVar("T")

LIMIT = click.IntRange(min=1, max=1_000_000_000)
"""How many lines are asked for."""

POSITION = click.IntRange(min=1, max=2**63 - 1)
"""The position of a failed job, as large as a store counts."""

STATES = click.Choice(list(documents.STATES.values()))


def state(word: str | None) -> State | None:
    """The state that this word stands for."""
    return next((state for state, called in documents.STATES.items() if called == word), None)


def queue(text: str) -> str:
    """A queue name, by the rule that dispatch has."""
    return _checked(validation.queue_name, text)


def queues(text: str) -> list[str]:
    """Several queue names with commas between them."""
    return _checked(validation.queue_names, text)


def job_id(text: str) -> str:
    """A job id in the form in which it is stored."""
    return _checked(validation.job_id, text)


def seconds(text: str) -> float:
    """A finite number of seconds, 0 or more."""
    try:
        number = float(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no number of seconds.") from None
    return _checked(lambda value: validation.seconds(value, what="The time"), number)


def seconds_list(text: str) -> tuple[float, ...]:
    """Several times in seconds with commas between them."""
    return tuple(seconds(part.strip()) for part in text.split(","))


def canonical(given: str) -> str | None:
    """The job id in the form in which it is stored; None for what can be no id, and so is unknown."""
    try:
        return validation.job_id(given)
    except InvalidArgument:
        return None


V = TypeVar("V")


def _checked(check: Callable[[V], T], value: V) -> T:
    try:
        return check(value)
    except InvalidArgument as error:
        raise click.BadParameter(str(error)) from None
