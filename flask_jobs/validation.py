"""The grammar of names and the units of time, checked before anything is sent."""

from __future__ import annotations

import datetime as dt
import inspect
import re
import uuid
from typing import TypeGuard

from .envelope import After, At, When
from .errors import InvalidArgument

_QUEUE = re.compile(r"[A-Za-z0-9_.-]{1,80}")
_JOB_NAME = re.compile(r"[A-Za-z0-9_.:/-]{1,120}")

# Ten thousand years: beyond it, no store and no datetime can hold the instant.
_LONGEST = 10_000 * 365 * 86_400.0


def queue_name(name: object) -> str:
    """The name itself, or `InvalidArgument`; the same rule for dispatch, drivers and command line."""
    if is_queue_name(name):
        return name
    raise InvalidArgument(
        f"{name!r} is no queue name: use 1 to 80 letters, digits, dots, dashes or underscores (A-Z a-z 0-9 . - _)."
    )


def is_queue_name(name: object) -> TypeGuard[str]:
    """Whether a queue may have this name."""
    return isinstance(name, str) and _QUEUE.fullmatch(name) is not None


def queue_names(text: str) -> list[str]:
    """The queues of a comma-separated list, in order and without repetition."""
    return list(dict.fromkeys(queue_name(part.strip()) for part in text.split(",")))


def job_name(name: object) -> str:
    """The name itself if a job or model may be registered under it, or `InvalidArgument`."""
    if isinstance(name, str) and _JOB_NAME.fullmatch(name):
        return name
    raise InvalidArgument(
        f"{name!r} is no name to register: use 1 to 120 of A-Z a-z 0-9 . _ : / -, such as 'billing.send-invoice'."
    )


def require_called(name: object, decorator: str) -> None:
    """Raise `InvalidArgument` if the decorator was written bare, so that it got its class or function as the name."""
    if isinstance(name, type) or inspect.isroutine(name):
        raise InvalidArgument(
            f"{decorator} above {name.__qualname__} needs the name to store it under: "
            f"write {decorator}('billing.send-invoice'), with a name of yours."
        )


def job_id(value: object) -> str:
    """The id in its canonical form: any UUID, as text or as `uuid.UUID`; else `InvalidArgument`."""
    try:
        return str(value if isinstance(value, uuid.UUID) else uuid.UUID(str(value)))
    except ValueError:
        raise InvalidArgument(f"{value!r} is no job id: give a UUID, such as str(uuid.uuid4()).") from None


def seconds(value: object, *, what: str) -> float:
    """A duration as seconds; numbers and timedeltas, finite and not negative, else `InvalidArgument`.

    `what` names the argument in the message.
    """
    if isinstance(value, dt.timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(f"{what} must be seconds or a timedelta, not {type(value).__name__}.")
    if not 0 <= value <= _LONGEST:  # false for NaN as well
        raise InvalidArgument(f"{what} must be a finite number of seconds, 0 or more.")
    return float(value)


def when(value: object, *, what: str) -> When:
    """A duration (by the store's clock) or an aware datetime; a naive one is refused."""
    if not isinstance(value, dt.datetime):
        return After(seconds(value, what=what))
    if value.utcoffset() is None:
        raise InvalidArgument(
            f"{what} is a datetime without a time zone, which means another instant on another host. "
            "Give it one, e.g. datetime.now(timezone.utc), or pass seconds."
        )
    return At(value.timestamp())


def count(value: object, *, what: str) -> int:
    """A whole number of 0 or more, else `InvalidArgument`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidArgument(f"{what} must be a whole number of 0 or more, not {value!r}.")
    return value
