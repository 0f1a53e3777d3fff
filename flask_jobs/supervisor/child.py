"""One worker process, as its supervisor sees it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .. import clock
from ..slate import Held, Order, Slate, Status, View
from ..worker.assignment import VARIABLE, Assignment
from ..worker.settings import Stop
from .command import started_in
from .verdicts import Kill

# A worker is no service of its own to systemd, and must not speak for its supervisor.
_NOT_INHERITED = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended: with an exit code, or by a signal."""

    code: int

    def __str__(self) -> str:
        if self.code >= 0:
            return f"exited with code {self.code}"
        number = -self.code
        with contextlib.suppress(ValueError):
            return f"was ended by signal {number} ({signal.Signals(number).name})"
        return f"was ended by signal {number}"


class Child:
    """A process that leads a group of its own, and the slate on which it notes what it holds.

    When it has ended, all that it has started and left in its group is ended with it.
    """

    def __init__(self, slot: int, process: subprocess.Popen[bytes], slate: Slate, lifeline: int) -> None:
        self.slot = slot
        self.slate = slate
        self.began = clock.monotonic()
        self.why_killed: Kill | None = None
        self.is_frozen = False
        self._process = process
        self._lifeline = lifeline
        self._renewed: dict[int, tuple[int, float]] = {}
        self._lost: set[tuple[str, str]] = set()
        self._seen: dict[int, tuple[View, float]] = {}
        self._errands: deque[str] = deque()
        self._errands_run = 0

    @classmethod
    def start(cls, slot: int, command: Sequence[str], *, lanes: int) -> Child:
        """Start the command as a worker process."""
        slate, memory = Slate.make(lanes)
        reading, writing = os.pipe()
        kept = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        try:
            # A job that closes what is not its own may leave it unread: that must not hold up anybody.
            os.set_blocking(writing, False)
            process = subprocess.Popen(
                command,
                env={**kept, VARIABLE: str(Assignment(slot, memory, reading, lanes))},
                stdin=subprocess.DEVNULL,
                pass_fds=(memory, reading),
                process_group=0,
                cwd=started_in(),
            )
        except BaseException:
            os.close(writing)
            slate.close()
            raise
        finally:
            os.close(memory)
            os.close(reading)
        return cls(slot, process, slate, writing)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_ready(self) -> bool:
        """Whether it looks for jobs, and has not said that it is leaving."""
        return self.slate.status is Status.READY

    @property
    def is_free(self) -> bool:
        """Whether it would run an errand at once: its first lane, which sees to them, runs nothing else."""
        return self.is_ready and not self.is_frozen and not self.slate.view(0).in_use

    @property
    def has_been_ready(self) -> bool:
        """Whether it has ever come so far."""
        return self.slate.status is not Status.STARTING

    @property
    def stop(self) -> Stop | None:
        """Why it has ended, as it has said itself; None if it has said nothing."""
        return list(Stop)[self.slate.reason] if self.slate.status is Status.LEAVING else None

    def ended(self) -> Ended | None:
        """How it ended, None while it lives. What is left of its group is ended before the group's number is free."""
        if hasattr(os, "waitid"):
            self._notice_freezing()
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return None
            self._end_group()
        code = self._process.poll()
        if code is None:
            return None
        if not hasattr(os, "waitid"):
            self._end_group()
        return Ended(code)

    def views(self) -> list[View]:
        """What its lanes say."""
        return self.slate.views()

    @property
    def at_work(self) -> list[Held]:
        """The jobs that it runs."""
        return [view.under_way for view in self.views() if view.under_way is not None]

    @property
    def running(self) -> str:
        """These jobs as the end of what is said of it."""
        jobs = ", ".join(f"[job:{held.id}] {held.name}" for held in self.at_work)
        return f"; it was running {jobs}" if jobs else ""

    def order(self, order: Order, *, wanted: bool = True) -> None:
        """Give it an order, or take it back."""
        self.slate.order(order, wanted=wanted)

    @property
    def errands(self) -> deque[str]:
        """Those that it was given and has not run."""
        while self._errands and self._errands_run < self.slate.errands:
            self._errands.popleft()
            self._errands_run += 1
        return self._errands

    def send(self, job_id: str) -> bool:
        """Give it an errand; says whether it was told. It is not if it is gone, or has not read what came before."""
        try:
            os.write(self._lifeline, job_id.encode() + b"\n")
        except OSError:
            return False
        self.errands.append(job_id)
        return True

    def terminate(self) -> None:
        """Ask it to end."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
            # One that was stopped would not hear it.
            os.kill(self.pid, signal.SIGCONT)

    def kill(self, why: Kill) -> None:
        """End it and its group at once, and itself also if a job has moved it to another group."""
        self.why_killed = self.why_killed or why
        self._end_group()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close its lifeline, after its end. The slate goes with whoever reads it last."""
        with contextlib.suppress(OSError):
            os.close(self._lifeline)

    def renewed(self, view: View, sent: float, lost: Iterable[Held]) -> None:
        """A renewal of what the view holds, sent at this instant, was confirmed, but for those that were lost."""
        self._lost.update((held.id, held.receipt) for held in lost)
        self._renewed[view.number] = view.serial, sent
        self.slate.renewed(view, sent)

    def lease_began(self, view: View) -> float:
        """When the lease of what the view holds began for the last time, on the monotonic clock."""
        serial, sent = self._renewed.get(view.number, (0, 0.0))
        # The worker does so itself while this process stands still.
        return max(view.asked, view.renewed, sent if serial == view.serial else 0.0)

    def unchanged(self, view: View) -> float:
        """For how many seconds this lane has said the same."""
        now = clock.monotonic()
        before, since = self._seen.get(view.number, (None, now))
        if before != view:
            since = now
            self._seen[view.number] = view, now
        return now - since

    def has_lost(self, held: Held) -> bool:
        """Whether the store has said that this delivery is over."""
        return (held.id, held.receipt) in self._lost

    def _notice_freezing(self) -> None:
        with contextlib.suppress(ChildProcessError):  # it has ended, which is another question
            change = os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WCONTINUED | os.WNOHANG)
            if change is not None:
                self.is_frozen = change.si_code == os.CLD_STOPPED

    def _end_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def reap_the_adopted(known: set[int]) -> None:
    """As the first process of a container, take note of the end of what others have left behind."""
    if os.getpid() != 1 or not hasattr(os, "waitid"):
        return
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid not in known:
            os.waitpid(ended.si_pid, 0)
