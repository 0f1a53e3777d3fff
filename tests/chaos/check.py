"""The look at the end: from the ledger and the driver port alone, was each job done as it was promised?"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from flask_jobs.envelope import Hook
from flask_jobs.stored import FailedJob
from tests.chaos.ledger import Line
from tests.chaos.story import Story, Told

# What takes a store away from a worker, or a worker's supervisor from it, so that leases may run out.
ENDS_LEASES = frozenset({"kill supervisor", "kill tree", "freeze past lease", "restart server", "cut", "hang"})


@dataclass
class Findings:
    """What is wrong, and how often what looks wrong is explained."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


class Check:
    """Looks at each promise in turn."""

    def __init__(self, story: Story, failed: Collection[FailedJob]) -> None:
        self._story = story
        self._failed = {story.labels.get(job.envelope.id, job.envelope.id): job for job in failed}
        self._may_expire = bool(ENDS_LEASES & story.faults.keys())
        self.found = Findings()

    def all(self) -> Findings:
        """Look at everything."""
        self.found.counts["jobs"] = len(self._story.jobs)
        self.found.counts["leases run out"] = sum(self._story.reclaimed.values())
        self.found.counts["settlements lost"] = sum(self._story.lost.values())
        for told in self._story.jobs.values():
            if "kind" not in told.made:
                self._say(told, "ran and was never made")
                continue
            self._look_at_the_end(told)
            self._look_at_the_reruns(told)
            self._look_at_the_attempts(told)
        if not self._may_expire and self._story.reclaimed:
            self._say(None, f"{len(self._story.reclaimed)} leases ran out, though no supervisor died")
        self._look_at_the_chains()
        self._look_at_the_batches()
        self._look_at_the_keys()
        return self.found

    def _say(self, told: Told | None, what: str) -> None:
        self.found.wrong.append(what if told is None else f"{told.label}: {what}")

    def _look_at_the_end(self, told: Told) -> None:
        record = self._failed.get(told.label)
        if told.made["kind"] == "poison":
            self._look_at_the_poison(told, record)
        elif record is not None:
            self._say(told, f"failed: {record.error.type}: {record.error.message}")
        elif not told.ends:
            self._say(told, f"lost; it was taken {len(told.taken)} times and begun {len(told.begins)} times")

    def _look_at_the_poison(self, told: Told, record: FailedJob | None) -> None:
        self.found.counts["poison"] += 1
        if record is None:
            self._say(told, "lost, and it was poison")
            return
        said = f"{record.error.type}: {record.error.message}"
        is_named = "WorkerDied" in record.error.type and "SIGKILL" in record.error.message
        if not is_named and not (self._may_expire and self._story.has_expired(told)):
            self._say(told, f"failed without the signal named: {said}")
        if len(told.hooks) > 1:
            self._say(told, f"failed() was called {len(told.hooks)} times")
        if not told.hooks:
            # At most once: it is noted before it is called, and who calls it may be killed in between.
            self.found.counts[f"failed() not called, and noted as {record.hook.value}"] += 1
        if not told.hooks and record.hook is Hook.PENDING and not self._may_expire:
            self._say(told, "failed() was never called")
        missing = told.made["attempts"] - len(told.begins)
        if missing != self._unseen(told, range(1, told.made["attempts"] + 1)):
            self._say(told, f"began {len(told.begins)} times, not {told.made['attempts']}")

    def _look_at_the_reruns(self, told: Told) -> None:
        for before, after in pairwise(told.begins):
            end = told.ended(before)
            if end is not None and end["at"] < after["at"]:
                self.found.counts["finished and run again"] += 1
                self._explain(told, end, f"ended in attempt {end['attempt']} and ran again")
            elif self._story.was_struck(before["pid"], before["at"], after["at"]):
                self.found.counts["cut off and run again"] += 1
            elif (before["id"], before["attempt"]) in self._story.broken:
                self.found.counts["failed for want of its store and run again"] += 1
            elif not self._expired(told):
                self._say(told, f"ran again while attempt {before['attempt']} was alive")

    def _explain(self, told: Told, line: Line, what: str) -> None:
        if self._story.was_struck_amid(line):
            self.found.counts["  of these, killed in that very moment"] += 1
        elif self._expired(told):
            self.found.counts["  of these, a lease ran out"] += 1
        else:
            self._say(told, f"{what}; {self._story.after(line)}")

    def _expired(self, told: Told) -> bool:
        return self._may_expire and self._story.has_expired(told)

    def _look_at_the_attempts(self, told: Told) -> None:
        highest = 0
        for begin in told.begins:
            skipped = range(highest + 1, begin["attempt"])
            if skipped:
                self._look_at_the_skipped(told, skipped)
            highest = max(highest, begin["attempt"])

    def _look_at_the_skipped(self, told: Told, skipped: range) -> None:
        """Attempts that were charged and whose bodies have said nothing."""
        counts = self.found.counts
        counts["attempts charged that did not begin"] += len(skipped)
        unseen = self._unseen(told, skipped)
        broken = sum((line["id"], attempt) in self._story.broken for line in told.taken[:1] for attempt in skipped)
        counts["  of these, killed between taking and beginning"] += unseen
        counts["  of these, a middleware had lost its store"] += broken
        if unseen + broken >= len(skipped):
            return
        if self._expired(told):
            counts["  of these, a lease ran out"] += len(skipped) - unseen - broken
        else:
            self._say(
                told, f"attempts {list(skipped)} were charged and had not begun; {self._last_words(told, skipped)}"
            )

    def _last_words(self, told: Told, attempts: Collection[int]) -> str:
        taken = [line for line in told.taken if line["attempt"] in attempts]
        return "; ".join(self._story.after(line) for line in taken) or "nobody had taken it"

    def _unseen(self, told: Told, attempts: Collection[int]) -> int:
        """How many of these attempts were taken by a process that died before their first word."""
        begun = {(line["attempt"], line["pid"]) for line in told.begins}
        unseen = {
            line["attempt"]
            for line in told.taken
            if (line["attempt"], line["pid"]) not in begun and self._story.was_struck_amid(line)
        }
        return len(unseen & set(attempts) - {line["attempt"] for line in told.begins})

    def _by(self, name: str) -> Iterator[tuple[str, list[Told]]]:
        groups: dict[str, list[Told]] = defaultdict(list)
        for told in self._story.jobs.values():
            if name in told.made:
                groups[told.made[name]].append(told)
        yield from groups.items()

    def _look_at_the_chains(self) -> None:
        for name, links in self._by("chain"):
            self.found.counts["chains"] += 1
            links.sort(key=lambda told: int(told.made["link"]))
            for before, after in pairwise(links):
                if before.ends and after.begins and after.begins[0]["at"] < before.ends[0]["at"]:
                    self._say(after, f"began before the link before it had ended, in {name}")

    def _look_at_the_batches(self) -> None:
        sizes = dict(self._by("batch"))
        for name, callbacks in self._by("of"):
            self.found.counts["batches"] += 1
            failed = sum(member.made["kind"] == "poison" for member in sizes[name])
            for told in callbacks:
                for end in told.ends:
                    wanted = self._counts(len(sizes[name]), failed, told.made["role"], end["counts"])
                    if end["counts"] != wanted:
                        self._say(told, f"found {end['counts']} in {name}, not {wanted}")

    @staticmethod
    def _counts(total: int, failed: int, role: str, found: dict[str, int]) -> dict[str, int]:
        if role == "catch":  # it runs at the first failure, whatever is still to come
            done = found["done"]
            return {"total": total, "pending": total - failed - done, "done": done, "failed": failed, "skipped": 0}
        return {"total": total, "pending": 0, "done": total - failed, "failed": failed, "skipped": 0}

    def _look_at_the_keys(self) -> None:
        """One of a key at a time. Who was cut off has lost its place when the next one begins."""
        for key, jobs in self._by("key"):
            for kind in ("unique", "exclusive"):
                runs = [
                    (begin["at"], told.ended(begin), told)
                    for told in jobs
                    if told.made["kind"] == kind
                    for begin in told.begins
                ]
                runs.sort(key=lambda run: run[0])
                for (_, end, first), (at, _, second) in pairwise(runs):
                    if end is not None and at < end["at"] and first is not second:
                        self._say(second, f"ran beside {first.label}, which has the same key {key}")
