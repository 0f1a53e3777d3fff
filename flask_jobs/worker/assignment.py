"""What a supervisor gives a worker process on its way, and the line that tells the worker whether it is still there."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass

from .. import clock
from ..slate import Order, Slate
from ..threads import start_deaf
from .crew import Crew
from .pause import pause
from .post import Post
from .settings import Stop

logger = logging.getLogger(__name__)

VARIABLE = "_SUPERVISED_BY_FLASK_JOBS"
"""Names, in the environment of a worker process, its slot and what it shares with its supervisor.

It begins like no setting, for applications read those of a prefix into their configuration.
"""

# How long an orphan that was told to hurry may take, in seconds, before it ends itself with all it has started.
_LAST_PATIENCE = 5.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """The number of the worker's slot (from 1), two open files, and how many lanes its slate has."""

    slot: int
    slate: int
    lifeline: int
    lanes: int

    @classmethod
    def take(cls, environment: MutableMapping[str, str] = os.environ) -> Assignment | None:
        """That of this process, None if it has no supervisor. It is taken out, for jobs start processes as well."""
        text = environment.pop(VARIABLE, None)
        if text is None:
            return None
        assignment = cls(*map(int, text.split(":")))
        for descriptor in (assignment.slate, assignment.lifeline):
            os.set_inheritable(descriptor, False)
        return assignment

    def __str__(self) -> str:
        return f"{self.slot}:{self.slate}:{self.lifeline}:{self.lanes}"


class Lifeline:
    """Reads what the supervisor sends, a line for each errand, and notices when it is gone."""

    def __init__(self, descriptor: int) -> None:
        self.errands: deque[str] = deque()
        self._descriptor = descriptor
        self._buffer = b""
        self._is_cut = False
        self._take_what_is_there()

    @property
    def is_cut(self) -> bool:
        """Whether the supervisor is gone."""
        return self._is_cut

    def watch(self, when_cut: Callable[[], None]) -> None:
        """Go on reading in a thread, and call this there when the supervisor is gone."""

        def read() -> None:
            while self._read():
                pass
            self._is_cut = True
            when_cut()

        start_deaf(threading.Thread(target=read, name="lifeline", daemon=True))

    def _take_what_is_there(self) -> None:
        """What was sent before this process began, so that nothing is left undone if there is no other work."""
        os.set_blocking(self._descriptor, False)
        with contextlib.suppress(BlockingIOError):
            while self._read():
                pass
        os.set_blocking(self._descriptor, True)

    def _read(self) -> bool:
        try:
            data = os.read(self._descriptor, 4_096)
        except BlockingIOError:
            raise
        except OSError:  # a job has closed what it did not open: nobody can tell any more whether the supervisor lives
            return False
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self.errands.extend(line.decode() for line in lines)
        return bool(data)


class Supervised:
    """A worker process under a supervisor."""

    def __init__(
        self,
        assignment: Assignment,
        *,
        grace: float,
        why_leave: Callable[[], Stop | None] = lambda: None,
        is_held_back: Callable[[], bool] = lambda: False,
    ) -> None:
        self._slate = Slate.open(assignment.slate, assignment.lanes)
        self._lifeline = Lifeline(assignment.lifeline)
        self._lanes = assignment.lanes
        self._grace = grace
        self._why_leave = why_leave
        self._is_held_back = is_held_back

    def posts(self) -> Sequence[Post]:
        """One for each lane; the first one sees to the errands."""
        return [
            Post(
                lane=self._slate.lane(number),
                is_held_back=lambda: self._slate.is_ordered(Order.PAUSE) or self._is_held_back(),
                why_leave=self._reason,
                why_told=self._why_told,
                is_hurried=lambda: self._slate.is_ordered(Order.HURRY),
                errands=self._lifeline.errands if number == 0 else deque(),
                errand_is_run=self._slate.count_errand,
            )
            for number in range(self._lanes)
        ]

    def run(self, crew: Crew, name: str) -> Stop:
        """Let the crew work, and tell the supervisor how it went."""
        self._lifeline.watch(lambda: self._go_on_alone(crew))
        self._slate.ready()
        stop = crew.run(name)
        self._slate.leaving(list(Stop).index(stop))
        return stop

    def end(self) -> None:
        """End what jobs have left behind, if no supervisor is there to do it. This process is among it."""
        if self._lifeline.is_cut:
            _end_the_group()

    def _reason(self) -> Stop | None:
        if self._lifeline.is_cut:
            return Stop.ORPHANED
        return self._why_told() if self._slate.is_ordered(Order.LEAVE) else self._why_leave()

    def _why_told(self) -> Stop:
        if self._slate.is_ordered(Order.TIME_IS_UP):
            return Stop.MAX_TIME
        return Stop.RESTART if self._slate.is_ordered(Order.RESTART) else Stop.SIGNAL

    def _go_on_alone(self, crew: Crew) -> None:
        """Bring to an end what runs, with leases renewed from here, but for no longer than the grace."""
        logger.warning("The supervisor is gone; this worker ends after its current job.")
        for worker in crew.workers:
            worker.go_on_alone()
        ends = clock.monotonic() + self._grace
        pause(ends - clock.monotonic(), until=lambda: False)
        self._slate.order(Order.HURRY)
        os.kill(os.getpid(), signal.SIGTERM)
        pause(_LAST_PATIENCE, until=lambda: False)
        _end_the_group()


def _end_the_group() -> None:
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
