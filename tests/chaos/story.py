"""What the ledger says of each job and each process."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.chaos.ledger import Line

MOMENT = 0.005
"""Seconds between a job's own last word and what the worker notes of its end, or between its being taken and its first
word: who is killed or stopped amid them cannot be told from one who is killed a little sooner or later."""


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
        self.broken: set[tuple[str, int]] = set()
        self._struck: dict[int, list[tuple[float, float]]] = defaultdict(list)
        self._lists = {"taken": "taken", "begin": "begins", "end": "ends", "hook": "hooks"}
        for line in sorted(lines, key=lambda line: float(line["at"])):
            self._take(line)

    def _take(self, line: Line) -> None:
        match line["event"]:
            case "made":
                self._told(line["label"]).made.update(line)
            case "fault":
                self.faults[line["kind"]] += 1
                for pid in line["pids"]:
                    self._struck[pid].append((line["at"], line.get("until", line["at"])))
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

    def strikes(self, pid: int, since: float, until: float) -> int:
        """How often the process was killed or stopped between these instants."""
        return sum(began <= until and since <= ended for began, ended in self._struck.get(pid, ()))

    def was_reclaimed(self, told: Told) -> bool:
        """Whether a lease of the job has run out."""
        return any(self.reclaimed[line["id"]] for line in told.taken)
