"""With which codes `flask jobs` ends, all in one place."""

from __future__ import annotations

from ..worker import Stop

OK = 0
"""Done; a worker that stopped because it was told to, or had nothing left to do."""

ERROR = 1
"""Something was not done: an unknown id, a refusal, an error of the library. The rest was done all the same."""

USAGE = 2
"""The command line itself cannot be used; nothing was done."""

STORE_AWAY = Stop.STORE_AWAY.exit_code
"""A worker gave up: the store was away for longer than it was to wait."""

INTERRUPTED = 130
"""Cut short by a signal, before the end of the work. Running the command again goes on with the rest."""
