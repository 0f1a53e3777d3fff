"""What a job allows itself: its options, checked, with a worker's defaults where it sets none."""

from __future__ import annotations

import datetime as dt
import inspect
import json
import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from . import log
from .envelope import When
from .errors import InvalidArgument
from .job import Job, is_set
from .unique import check_unique
from .validation import count, seconds, when

logger = logging.getLogger(__name__)

Pauses = tuple[float, ...] | Callable[[int], float] | None


@dataclass(frozen=True, slots=True)
class WorkerDefaults:
    """What a worker lets stand in for jobs that set none themselves.

    `tries` for `max_attempts`, `timeout` (0 or None: no limit) and `backoff` for the options of those names. `lease`:
    how many seconds any job may take at most, where nobody renews its lease.
    """

    tries: int | None = None
    timeout: float | None = 60.0
    backoff: float | tuple[float, ...] | None = None
    lease: float | None = None


@dataclass(frozen=True)
class JobOptions:
    """The options of one job as they hold for one attempt.

    `sets_attempts` says that the job itself set `max_attempts`, so that it holds beside a deadline as well.
    `timeout` 0 means no limit. `backoff`: pauses by attempt, a method to ask, or None for the default. `prefetch` 1: it
    is never taken along with others.
    """

    max_attempts: int = 3
    sets_attempts: bool = False
    max_exceptions: int | None = None
    max_releases: int | None = None
    max_interruptions: int | None = 20
    timeout: float = 60.0
    fail_on_timeout: bool = False
    backoff: Pauses = None
    prefetch: int | None = None

    def pinned(self, attempt: int) -> JobOptions:
        """The same, with a backoff method replaced by what it answers for this attempt.

        A method that raises, or answers with anything but seconds, is logged and the default taken instead.
        """
        if not callable(self.backoff):
            return self
        return replace(self, backoff=_answer(self.backoff, attempt))

    @cached_property
    def text(self) -> str:
        """What `load` takes; the options must be pinned. Written once, for the jobs of a class share their options."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, text: str) -> JobOptions:
        """The options of which this is the text."""
        values = json.loads(text)
        backoff = values.pop("backoff")
        return cls(**values, backoff=None if backoff is None else tuple(backoff))


def resolve(job: Job | None, defaults: WorkerDefaults) -> JobOptions:
    """The job's options; those of a job that cannot be rebuilt (None) are the defaults."""
    attempts = 3 if defaults.tries is None else defaults.tries
    if job is None:
        return JobOptions(max_attempts=attempts, timeout=defaults.timeout or 0.0, backoff=_pauses(defaults.backoff))
    checked = _checked(job)
    timeout, backoff = checked.pop("timeout"), checked.pop("backoff")
    sets_attempts = is_set(job, "max_attempts")
    if not sets_attempts:
        checked["max_attempts"] = attempts
    return JobOptions(
        **checked,
        sets_attempts=sets_attempts,
        timeout=(defaults.timeout or 0.0) if timeout is None else timeout,
        backoff=backoff if is_set(job, "backoff") and backoff is not None else _pauses(defaults.backoff),
    )


def check(job: Job | type[Job]) -> None:
    """Raise `InvalidArgument`, naming class and option, if an option of the job or class cannot be used."""
    _checked(job)
    check_unique(job)
    deadline = job.retry_until
    if deadline is None or callable(deadline) or _is_left_to_instances(job, deadline):
        return
    when(deadline, what=_label(job, "retry_until"))


def deadline(job: Job) -> When | None:
    """The instant after which no attempt but the first starts, to be fixed at dispatch; None if there is none."""
    value = job.retry_until
    if callable(value):
        value = value()
    return None if value is None else when(value, what=_label(job, "retry_until"))


class Checker:
    """Checks jobs as `check` does, and remembers by class the very values that passed."""

    def __init__(self) -> None:
        self._passed: dict[type[Job], tuple[object, ...]] = {}

    def __call__(self, job: Job) -> None:
        """Raise `InvalidArgument`, naming class and option, if an option of the job cannot be used."""
        values = _all_values(job)
        known = self._passed.get(type(job))
        # The same objects and not equal ones: True is no number here, and equal to 1.
        if known is not None and all(map(operator.is_, values, known)):
            return
        check(job)
        if all(type(value) in _UNCHANGING for value in values):
            self._passed[type(job)] = values


class Resolver:
    """Resolves options as `resolve` does, and remembers them by class as long as nothing is changed."""

    def __init__(self) -> None:
        self._known: dict[type[Job], tuple[WorkerDefaults, tuple[object, ...], JobOptions]] = {}

    def __call__(self, job: Job | None, defaults: WorkerDefaults) -> JobOptions:
        """The job's options under these defaults."""
        if job is None or not _NAMES.isdisjoint(getattr(job, "__dict__", ())):
            return resolve(job, defaults)
        values = _values(job)
        known = self._known.get(type(job))
        if known is not None and known[0] is defaults and known[1] == values:
            return known[2]
        options = resolve(job, defaults)
        if not callable(options.backoff):  # a bound method would keep its job alive
            self._known[type(job)] = (defaults, values, options)
        return options


def _count_or_none(value: object, *, what: str) -> int | None:
    return None if value is None else count(value, what=what)


def _some_or_none(value: object, *, what: str) -> int | None:
    if value == 0 and not isinstance(value, bool):
        raise InvalidArgument(f"{what} must be 1 or more, or None for no limit, not 0.")
    return _count_or_none(value, what=what)


def _one_or_none(value: object, *, what: str) -> int | None:
    if value is None:
        return None
    if value == 1 and not isinstance(value, bool):
        return 1
    raise InvalidArgument(f"{what} must be 1, for a job that is never taken along with others, or None, not {value!r}.")


def _seconds_or_none(value: object, *, what: str) -> float | None:
    return None if value is None else seconds(value, what=what)


def _flag(value: object, *, what: str) -> bool:
    if isinstance(value, bool):
        return value
    raise InvalidArgument(f"{what} must be True or False, not {value!r}.")


def _pauses(value: object, *, what: str = "backoff") -> Pauses:
    if value is None or callable(value):
        return value
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return (seconds(value, what=what),)
    if not value:
        raise InvalidArgument(f"{what} is an empty list: give seconds for each attempt, or None for the default.")
    return tuple(seconds(item, what=f"{what}[{place}]") for place, item in enumerate(value))


_CHECKS: Mapping[str, Callable[..., Any]] = {
    "max_attempts": count,
    "max_exceptions": _some_or_none,
    "max_releases": _count_or_none,
    "max_interruptions": _count_or_none,
    "timeout": _seconds_or_none,
    "fail_on_timeout": _flag,
    "prefetch": _one_or_none,
    "backoff": _pauses,
}
_NAMES = frozenset(_CHECKS)
_values = operator.attrgetter(*_CHECKS)
_all_values = operator.attrgetter(*_CHECKS, "unique", "unique_for", "retry_until")

# Of a tuple, checking has seen that it holds numbers and timedeltas.
_UNCHANGING = frozenset({type(None), bool, int, float, str, tuple, dt.timedelta})


def _checked(job: Job | type[Job]) -> dict[str, Any]:
    read = {name: getattr(job, name) for name in _CHECKS}
    return {
        name: _CHECKS[name](value, what=_label(job, name))
        for name, value in read.items()
        if not _is_left_to_instances(job, value)
    }


def _is_left_to_instances(job: Job | type[Job], value: object) -> bool:
    """Whether a class only says that its instances have the value: a property or a slot."""
    return isinstance(job, type) and inspect.isdatadescriptor(value)


def _label(job: Job | type[Job], option: str) -> str:
    cls = job if isinstance(job, type) else type(job)
    return f"{cls.__name__}.{option}"


def _answer(method: Callable[[int], float], attempt: int) -> tuple[float, ...] | None:
    name = getattr(method, "__qualname__", "backoff")
    try:
        return (seconds(method(attempt), what=f"What {name}({attempt}) returns"),)
    except (Exception, SystemExit) as error:  # it may raise anything, and the attempt must be settled all the same
        message = "%s(%s) gave no pause; the default backoff is taken."
        log.note(logger, logging.ERROR, message, name, attempt, error=error)
        return None
