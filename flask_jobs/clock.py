"""The only source of time.

Instants are epoch seconds, and freezing or moving `time.time` in a test moves them. Waiting reads the system's
monotonic clock by number, because test clocks replace `time.monotonic`, and a wait must end all the same.
"""

from __future__ import annotations

import datetime as dt
import time
from functools import partial


def now() -> float:
    """The present instant in epoch seconds, by this host's clock (or the test's)."""
    return time.time()


monotonic = partial(time.clock_gettime, time.CLOCK_MONOTONIC)
"""Seconds that never stand still and never go back, for measuring and waiting."""


def as_datetime(instant: float) -> dt.datetime:
    """The instant as an aware datetime in UTC."""
    return dt.datetime.fromtimestamp(instant, tz=dt.UTC)
