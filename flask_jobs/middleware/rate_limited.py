"""Limits on how often jobs start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..control import Guard, Run
from ..errors import InvalidArgument
from ..limits import Limit
from ..store import Granted, Turn
from .putting_back import Duration, PutsBack, at, current_run

# What a clock that counts in milliseconds may be early.
_MARGIN = 0.002


class RateLimited(PutsBack):
    """Lets jobs through as often as a limiter (`Jobs.limiter`) allows, and gives each of the others its own turn.

    A job that is blocked comes back when its turn has come, and then runs. With `release_after` (seconds) it comes
    back by then instead, and is tested anew; with `drop` it ends quietly.
    """

    def __init__(
        self,
        limiter: str,
        *,
        release_after: Duration | None = None,
        drop: bool = False,
        spend_attempt: bool | None = None,
        store: str | None = None,
    ) -> None:
        super().__init__(release_after=release_after, drop=drop, spend_attempt=spend_attempt, store=store)
        if not isinstance(limiter, str):
            raise InvalidArgument(f"RateLimited takes the name of a limiter, not {type(limiter).__name__}.")
        self.limiter = limiter

    def handle(self, job: Any, call_next: Callable[[], None]) -> None:
        """Let the job through if all its limits allow it now."""
        run = current_run()
        limits = run.guards.limits(self.limiter, job)
        if not limits:
            call_next()
            return
        guard = run.guards.guard(self._store)
        answer = self._book(run, guard, limits)
        if isinstance(answer, Turn):
            self._put_back(answer.wait + _MARGIN, self._reason(answer, limits))
        places = answer.places
        run.afterwards.append(lambda: run.has_started or guard.store.give_back(None, places))
        call_next()

    def _book(self, run: Run, guard: Guard, limits: Sequence[Limit]) -> Granted | Turn:
        books = self._pause is None and not self._drops
        owner = run.reservation.envelope.id
        quotas = [limit.quota(self.limiter) for limit in limits]
        answer = guard.store.book(quotas, owner=owner, name=self.limiter, ahead=books)
        if books and isinstance(answer, Turn):
            run.undo.append(lambda: guard.store.give_back(owner))
        return answer

    def _reason(self, turn: Turn, limits: Sequence[Limit]) -> str:
        used_up = f"the limit {self.limiter!r} of {limits[turn.blocker]} is used up"
        if self._drops or self._pause is not None:
            return f"{used_up} until {at(turn.at)}"
        return f"{used_up}; its own turn comes at {at(turn.at)}"
