"""Processes that a job forks and does not end: each would go on as a second worker with the first one's receipts."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from ..pipeline import Timer


def ending_forks(timer: Timer) -> Timer:
    """The timer, with what the body forks ended where the body ends, as it would be at the end of a script."""

    def timed(limit: float, body: Callable[[], None], *, grace: float = 0) -> None:
        timer(limit, partial(_call, body, os.getpid()), grace=grace)

    return timed


def _call(body: Callable[[], None], pid: int) -> None:
    try:
        body()
    except BaseException as error:
        if os.getpid() != pid:
            _leave(error)
        raise
    if os.getpid() != pid:
        _leave(None)


def _leave(error: BaseException | None) -> NoReturn:
    """End this process at once, for what the interpreter does at its end is its parent's to do."""
    with contextlib.suppress(BaseException):  # a fork must not get out of here, whatever its streams do
        if error is not None and not isinstance(error, SystemExit):
            traceback.print_exception(error)
        sys.stdout.flush()
        sys.stderr.flush()
    code = error.code if isinstance(error, SystemExit) else error
    os._exit(code if isinstance(code, int) else int(code is not None))
