"""What becomes of a job that may not run now, as all middleware with a store have it."""

from __future__ import annotations

import copy
import datetime as dt
from typing import NoReturn, Self

from .. import clock
from ..control import DiscardJob, ReleaseJob, Run, current_job
from ..errors import InvalidArgument
from ..validation import seconds as as_seconds

Duration = float | dt.timedelta


class PutsBack:
    """Puts a job back that may not run now, or drops it. Each method gives a changed copy.

    `store` names the store: a connection, or "memory"; None is the one of JOBS_STORE.
    """

    def __init__(
        self,
        *,
        release_after: Duration | None,
        drop: bool,
        spend_attempt: bool | None,
        store: str | None,
    ) -> None:
        self._pause = None if release_after is None else as_seconds(release_after, what="release_after")
        self._drops = drop
        self._spends = spend_attempt
        self._store = store

    def release_after(self, seconds: Duration) -> Self:
        """Put the job back for so long, whatever else it would wait for."""
        changed = copy.copy(self)
        changed._pause, changed._drops = as_seconds(seconds, what="release_after"), False
        return changed

    def dont_release(self) -> Self:
        """End the job quietly instead of putting it back."""
        changed = copy.copy(self)
        changed._drops = True
        return changed

    def spend_attempt(self, spends: bool = True) -> Self:
        """Let a release cost the job an attempt, or not, whatever JOBS_RELEASES_SPEND_ATTEMPTS says."""
        changed = copy.copy(self)
        changed._spends = spends
        return changed

    def in_store(self, name: str) -> Self:
        """Use the store of this name."""
        changed = copy.copy(self)
        changed._store = name
        return changed

    def _put_back(self, wait: float, reason: str) -> NoReturn:
        if self._drops:
            raise DiscardJob(f"dropped: {reason}")
        raise ReleaseJob(wait if self._pause is None else self._pause, reason, spend_attempt=self._spends)


def current_run() -> Run:
    """The attempt that is under way."""
    return current_job.run


def key_of(value: object, *, what: str) -> str:
    """The text of a key; numbers and UUIDs are as good."""
    text = str(value)
    if not text:
        raise InvalidArgument(f"{what} needs a key that is not empty.")
    return text


def at(instant: float) -> str:
    """The instant in words."""
    return f"{clock.as_datetime(instant):%Y-%m-%dT%H:%M:%SZ}"
