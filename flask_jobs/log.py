"""Logging what went wrong beside a job, in a way that cannot go wrong itself."""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import Mapping

from .tracebacks import of_the_application


def complain(
    logger: logging.Logger,
    message: str,
    *args: object,
    level: int = logging.ERROR,
    fields: Mapping[str, object] | None = None,
) -> None:
    """Log the exception being handled, with its whole traceback and `fields` on the record.

    A handler or filter that raises is shown on stderr and changes nothing.
    """
    try:
        logger.log(level, message, *args, extra=fields, exc_info=True)
    except Exception:  # the application's own handlers and filters may raise anything
        # Where a job has closed stderr, nobody is left to be told.
        with contextlib.suppress(Exception):
            if sys.stderr is not None:
                traceback.print_exc(file=sys.stderr)


def note(
    logger: logging.Logger,
    level: int,
    message: str,
    *args: object,
    fields: Mapping[str, object] | None = None,
    error: BaseException | None = None,
) -> None:
    """Log a line, with `fields` on its record and the traceback of `error`; as safe as `complain`.

    The traceback begins in the application, as the stored one does: this is for errors of its own.
    """
    about = None if error is None else (type(error), error, of_the_application(error.__traceback__))
    try:
        logger.log(level, message, *args, extra=fields, exc_info=about)
    except Exception:  # as above
        complain(logger, "A log handler raised.")
