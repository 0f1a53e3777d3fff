"""Middleware that needs no store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..control import DiscardJob, FailJob
from ..errors import InvalidArgument

Condition = bool | Callable[[Any], bool]


class Skip:
    """Ends a job quietly, without running it, when a condition holds."""

    def __init__(self, condition: Condition, reason: str = "") -> None:
        self._condition = condition
        self._reason = reason

    @classmethod
    def when(cls, condition: Condition, reason: str = "") -> Skip:
        """Skip the job if this is true: a value, or a function of the job that is asked on the worker."""
        return cls(condition, reason)

    @classmethod
    def unless(cls, condition: Condition, reason: str = "") -> Skip:
        """Skip the job if this is false."""
        if callable(condition):
            return cls(lambda job: not condition(job), reason)
        return cls(not condition, reason)

    def handle(self, job: Any, call_next: Callable[[], None]) -> None:
        """Ask, and let the job through or not."""
        if self._condition(job) if callable(self._condition) else self._condition:
            raise DiscardJob(f"skipped: {self._reason}" if self._reason else "skipped by its middleware")
        call_next()


class FailOnException:
    """Fails a job for good at errors of these classes, or at those of which a function says so, whatever attempts are
    left."""

    def __init__(self, *errors: type[Exception] | Callable[[Exception], bool]) -> None:
        if not errors or not all(callable(error) for error in errors):
            raise InvalidArgument("FailOnException takes classes of errors, or functions of an error.")
        self._classes = tuple(error for error in errors if isinstance(error, type))
        self._functions = [error for error in errors if not isinstance(error, type)]

    def handle(self, job: Any, call_next: Callable[[], None]) -> None:
        """Run the job, and make an error final that is one of these."""
        try:
            call_next()
        except Exception as error:
            if isinstance(error, self._classes) or any(says(error) for says in self._functions):
                raise FailJob(error) from error
            raise
