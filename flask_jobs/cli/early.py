"""A command that obeys a request to stop also before the application is loaded."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

import click

from ..worker.assignment import VARIABLE

# Ctrl-C is heard anyway.
_STOPS = [getattr(signal, name) for name in ("SIGTERM", "SIGQUIT") if hasattr(signal, name)]


class EarlyCommand(click.Command):
    """Until it takes these signals in its own way they end it with exit code 0, for nothing has begun.

    Without that the first process of a container would not hear them at all. A worker lets them end it as they do any
    process, which tells its supervisor why.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Load the application and run the command."""
        if VARIABLE in os.environ or threading.current_thread() is not threading.main_thread():
            return super().invoke(ctx)
        before = {number: signal.signal(number, _leave) for number in _STOPS}
        try:
            return super().invoke(ctx)
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)
