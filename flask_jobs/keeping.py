"""Locks that have an end of their own, kept alive from a thread as long as their jobs run."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from . import clock, log
from .errors import ConnectionLost, StoreRefused
from .threads import start_deaf

logger = logging.getLogger(__name__)

# Extended this many times before the end, so that one that is lost costs nothing.
_TIMES = 3

# After one that failed, the next try follows sooner.
_RETRY_SHARE = 10


@dataclass(eq=False, slots=True)
class _Kept:
    """Something to be extended, and when next, on the monotonic clock."""

    what: str
    extend: Callable[[], bool]
    every: float
    due: float


class Keeper:
    """Extends what is kept, again and again, from one thread that is started when it is first needed."""

    def __init__(self) -> None:
        self._kept: set[_Kept] = set()
        self._changed = threading.Condition()
        self._process: int | None = None

    def keep(self, what: str, extend: Callable[[], bool], *, seconds: float) -> Callable[[], None]:
        """Call `extend` before `seconds` are over, time after time; gives what ends it. `what` names it in the log.

        When `extend` says that it is too late, that is logged and it is not called again.
        """
        every = seconds / _TIMES
        kept = _Kept(what, extend, every, clock.monotonic() + every)
        with self._changed:
            if self._process != os.getpid():  # a thread does not survive a fork
                self._process, self._kept = os.getpid(), set()
                start_deaf(threading.Thread(target=self._run, name="locks", daemon=True))
            self._kept.add(kept)
            self._changed.notify()
        return lambda: self._drop(kept)

    def _drop(self, kept: _Kept) -> None:
        with self._changed:
            self._kept.discard(kept)

    def _run(self) -> None:
        while True:
            with self._changed:
                due = min((kept.due for kept in self._kept), default=None)
                if due is None or due > clock.monotonic():
                    self._changed.wait(None if due is None else due - clock.monotonic())
                    continue
                now = clock.monotonic()
                work = [kept for kept in self._kept if kept.due <= now]
            for kept in work:
                self._extend(kept)

    def _extend(self, kept: _Kept) -> None:
        sent = clock.monotonic()
        try:
            is_held = kept.extend()
        except Exception as error:  # whatever a store raises, the other locks must be extended, too
            kept.due = sent + kept.every / _RETRY_SHARE
            if not isinstance(error, ConnectionLost | StoreRefused):
                log.complain(logger, "Extending %s failed; trying again.", kept.what)
            return
        kept.due = sent + kept.every
        with self._changed:
            was_kept = kept in self._kept
            if not is_held:
                self._kept.discard(kept)
        if was_kept and not is_held:
            log.note(logger, logging.WARNING, "%s ran out while its job runs: another may hold it by now.", kept.what)
