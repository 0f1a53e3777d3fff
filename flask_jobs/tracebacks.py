"""Where a traceback that people read begins: in the application, not in the code that leads there."""

from __future__ import annotations

import os
from types import TracebackType

_ON_THE_WAY = (
    os.path.join(os.path.dirname(__file__), ""),
    os.path.join(os.path.dirname(os.__file__), "asyncio", ""),
)
"""Where the code is that leads to an application's."""


def of_the_application(frames: TracebackType | None) -> TracebackType | None:
    """The frames from the first one on that is the application's; all of them if none is."""
    inner = frames
    while inner is not None and inner.tb_frame.f_code.co_filename.startswith(_ON_THE_WAY):
        inner = inner.tb_next
    return frames if inner is None else inner
