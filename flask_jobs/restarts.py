"""Asking the workers of a connection to leave after their current job: a mark in the store beside their jobs."""

from __future__ import annotations

import secrets

from .store import Store

KEY = "workers/restart"

# No worker lives so long, in seconds: ten years.
_LASTS = 10 * 365 * 86_400.0

_STEPS = 1 << 31


def ask(store: Store) -> None:
    """Ask all workers that have started by now, and none that starts later."""
    # A random step, so that a mark made after the last one has ended is not taken for it.
    store.tally(KEY, 1 + secrets.randbelow(_STEPS), seconds=_LASTS)


def asked(store: Store) -> int:
    """The present mark, another one after each `ask`; 0 if there is none, or none any more."""
    return store.tally(KEY, 0, seconds=_LASTS).count


def is_asked(store: Store, since: int) -> bool:
    """Whether somebody has asked since the mark was this one. A mark that has ended is no question."""
    return asked(store) not in (0, since)
