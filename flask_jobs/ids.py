"""Job ids: UUIDs of version 7, so that ids sort by the time they were made.

Layout of RFC 9562, section 5.7, with the 12 bits after the milliseconds used as a counter (method 1 of section
6.2), so that ids made by one process in one millisecond keep their order.
"""

from __future__ import annotations

import os
import threading

from . import clock

# A clock set back by more milliseconds than this is followed; within it, order matters more than the clock.
_SET_BACK = 10_000

_lock = threading.Lock()
_last = (0, 0)


def new_id() -> str:
    """A new job id, larger than every one that this process has made before."""
    milliseconds, counter = _tick()
    moment = f"{milliseconds:012x}"
    chance = f"{int.from_bytes(os.urandom(8)) >> 2 | 1 << 63:016x}"  # begins with the two bits of the variant, 10
    return f"{moment[:8]}-{moment[8:]}-7{counter:03x}-{chance[:4]}-{chance[4:]}"


def _tick() -> tuple[int, int]:
    """The next pair of millisecond and counter, larger than the last one unless the clock was set back."""
    global _last
    with _lock:
        present = int(clock.now() * 1000)
        milliseconds, counter = _last
        if present > milliseconds or present < milliseconds - _SET_BACK:
            milliseconds, counter = present, 0
        elif counter < 0xFFF:
            counter += 1
        else:
            milliseconds, counter = milliseconds + 1, 0
        _last = milliseconds, counter
        return milliseconds, counter
