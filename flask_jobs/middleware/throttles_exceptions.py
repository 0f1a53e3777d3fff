"""A circuit breaker: after too many errors, jobs wait before they try again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

from ..control import Guard, JobTimeout
from ..errors import InvalidArgument
from ..store import Tally
from ..validation import count
from ..validation import seconds as as_seconds
from .putting_back import Duration, PutsBack, at, current_run, key_of

When = Callable[[BaseException], bool]
Report = Callable[[BaseException], object]


class ThrottlesExceptions(PutsBack):
    """Counts the errors that come out of jobs with this key, and raises them on: backoff and failure rules hold.

    With `max_exceptions` of them within `decay` seconds of the first one the circuit opens: until these seconds are
    over, jobs are put back without running; with `retry_after` each for so long. A job that goes well ends the count.
    Timeouts count, too. `when(error)` says which errors count, `report(error)` is told of the one that opens the
    circuit. The key is shared by all jobs; without one it is the job's name.
    """

    def __init__(
        self,
        key: object = None,
        *,
        max_exceptions: int = 10,
        decay: Duration = 60,
        retry_after: Duration = 0,
        when: When | None = None,
        report: Report | None = None,
        drop: bool = False,
        spend_attempt: bool | None = None,
        store: str | None = None,
    ) -> None:
        pause = as_seconds(retry_after, what="retry_after")
        super().__init__(release_after=pause or None, drop=drop, spend_attempt=spend_attempt, store=store)
        self._key = None if key is None else key_of(key, what="ThrottlesExceptions")
        self._most = count(max_exceptions, what="max_exceptions")
        self._decay = as_seconds(decay, what="decay")
        self._when = when
        self._report = report
        if self._most == 0 or self._decay <= 0:
            raise InvalidArgument("ThrottlesExceptions needs max_exceptions of 1 or more, and a decay above 0 seconds.")

    def by(self, key: object) -> Self:
        """Count under this key."""
        changed = copy.copy(self)
        changed._key = key_of(key, what="ThrottlesExceptions")
        return changed

    def backoff(self, seconds: Duration) -> Self:
        """Put jobs back for so long while the circuit is open."""
        return self.release_after(seconds)

    def when(self, condition: When) -> Self:
        """Count only the errors of which the condition is true."""
        changed = copy.copy(self)
        changed._when = condition
        return changed

    def report(self, to: Report) -> Self:
        """Tell this function of the error that opens the circuit."""
        changed = copy.copy(self)
        changed._report = to
        return changed

    def handle(self, job: Any, call_next: Callable[[], None]) -> None:
        """Run the job unless the circuit is open, and count what comes out of it."""
        run = current_run()
        guard = run.guards.guard(self._store)
        said = run.guards.name_of(job) if self._key is None else self._key
        key = f"errors/{said}"
        before = guard.store.tally(key, 0, seconds=self._decay)
        if before.count >= self._most:
            self._put_back(before.left, self._reason(said, before))
        try:
            call_next()
        except (Exception, JobTimeout) as error:
            cause = error
            run.afterwards.append(lambda: self._count(guard, key, cause))
            raise
        if before.count and run.has_started:
            run.afterwards.append(lambda: guard.store.clear(key))

    def _count(self, guard: Guard, key: str, error: BaseException) -> None:
        if self._when is not None and not self._when(error):
            return
        tally = guard.store.tally(key, seconds=self._decay)
        if tally.count == self._most and self._report is not None:
            self._report(error)

    def _reason(self, said: str, tally: Tally) -> str:
        return f"the circuit {said!r} is open until {at(tally.ends)}, after {tally.count} errors"
