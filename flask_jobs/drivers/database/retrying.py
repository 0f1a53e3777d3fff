"""Running a step again that the server has given up for the sake of others."""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .dialects import Overtaken

P = ParamSpec("P")
R = TypeVar("R")

_ATTEMPTS = 12
_FIRST, _LONGEST = 0.002, 0.25


def repeated_if_overtaken(step: Callable[P, R]) -> Callable[P, R]:
    """The step, run again when its transaction was overtaken.

    Nothing is left of such a transaction, so that it is the same as if the step had begun later.
    """

    @functools.wraps(step)
    def again(*args: P.args, **kwargs: P.kwargs) -> R:
        pause = _FIRST
        for _ in range(_ATTEMPTS - 1):
            try:
                return step(*args, **kwargs)
            except Overtaken:
                # Those who were in each other's way must not meet again at the same instant.
                time.sleep(pause * random.uniform(0.5, 1.5))
                pause = min(pause * 2, _LONGEST)
        return step(*args, **kwargs)

    return again
