"""What the ledger says of each job and each process."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.chaos.ledger import Line

MOMENT = 0.005
"""Seconds between a job's own last word and what the worker notes of its end, or between its being taken and its first
word: who is killed or stopped amid them cannot be told from one who is killed a little sooner or later."""

COMPUTED = 0.0005
"""On a busy machine the same moment lasts longer, but no process computes for longer in it."""


@dataclass(frozen=True)
class Strike:
    """A process was killed or stopped between two instants, when it had computed for so long."""

    began: float
    ended: float
    computed: float | None

    def is_amid(self, line: Line) -> bool:
        """Whether it came in the very moment of this line."""
        if self.ended < line["at"]:
            return False
        is_close = self.computed is not None and self.computed - line["cpu"] <= COMPUTED
        return is_close or self.began <= line["at"] + MOMENT


@dataclass
class Told:
    """All lines of one job, in order of time."""

    made: Line
    taken: list[Line] = field(default_factory=list)
    begins: list[Line] = field(default_factory=list)
    ends: list[Line] = field(default_factory=list)
    hooks: list[Line] = field(default_factory=list)

    @property
    def label(self) -> str:
        return str(self.made["label"])

    def ended(self, begin: Line) -> Line | None:
        """The end of the run that began so."""
        return next((end for end in self.ends if end["pid"] == begin["pid"] and end["at"] >= begin["at"]), None)


class Story:
    """The whole ledger, by job and by process."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.jobs: dict[str, Told] = {}
        self.labels: dict[str, str] = {}
        self.faults: Counter[str] = Counter()
        self.reclaimed: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.forsaken: set[int] = set()
        self.broken: set[tuple[str, int]] = set()
        self._last: dict[int, float] = {}
        self._struck: dict[int, list[Strike]] = defaultdict(list)
        self._lists = {"taken": "taken", "begin": "begins", "end": "ends", "hook": "hooks"}
        for line in sorted(lines, key=lambda line: float(line["at"])):
            self._take(line)

    def _take(self, line: Line) -> None:
        self._last[line["pid"]] = line["at"]
        match line["event"]:
            case "made":
                self._told(line["label"]).made.update(line)
            case "fault":
                self.faults[line["kind"]] += 1
                if line["kind"] in ("kill supervisor", "kill tree"):
                    self.forsaken.update(line["pids"])
                computed = line.get("computed", [line["cpu"]])
                for pid, cpu in zip(line["pids"], computed, strict=True):
                    self._struck[pid].append(Strike(line["at"], line.get("until", line["at"]), cpu))
            case "reclaimed":
                self.reclaimed[line["id"]] += 1
            case "broken":
                self.broken.add((line["id"], line["attempt"]))
            case "settlement-lost":
                self.lost[line["id"]] += 1
            case event if event in self._lists:
                told = self._told(line["label"])
                getattr(told, self._lists[event]).append(line)
                if "id" in line:
                    self.labels[line["id"]] = line["label"]

    def _told(self, label: str) -> Told:
        return self.jobs.setdefault(label, Told({"label": label}))

    def was_struck(self, pid: int, since: float, until: float) -> bool:
        """Whether the process was killed or stopped between these instants."""
        return any(strike.began <= until and since <= strike.ended for strike in self._struck.get(pid, ()))

    def was_struck_amid(self, line: Line) -> bool:
        """Whether the process was killed or stopped in the very moment of this line, and got no further."""
        pid, at = line["pid"], line["at"]
        strikes = [strike for strike in self._struck.get(pid, ()) if strike.is_amid(line)]
        return any(not (at < self._last[pid] < strike.began) for strike in strikes)

    def has_expired(self, told: Told) -> bool:
        """Whether a lease of the job has run out.

        Who takes it in says so, but may be killed before; then it is enough that a process held it that died along with
        its supervisor.
        """
        return any(self.reclaimed[line["id"]] or line["pid"] in self.forsaken for line in told.taken)

    def after(self, line: Line) -> str:
        """What struck the process after this line, in words."""
        pid, at = line["pid"], line["at"]
        strike = min(
            (one for one in self._struck.get(pid, ()) if one.ended >= at), key=lambda one: one.began, default=None
        )
        if strike is None:
            return f"process {pid} was not struck after it"
        computed = -1 if strike.computed is None else strike.computed - line["cpu"]
        return f"process {pid} was struck {strike.began - at:.4f} s after it and computed for {computed:.4f} s"
