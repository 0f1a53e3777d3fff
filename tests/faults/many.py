"""Producers and workers that share a queue, and what the ledger says of their jobs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.faults.workers import Site


@dataclass(frozen=True)
class Amount:
    """How many jobs in all, how many workers, how many seconds they may take on a busy machine; who makes the jobs."""

    jobs: int
    workers: int
    limit: float
    producers: int = 4


FEW = Amount(400, 3, 60, producers=2)


class Traffic:
    """Some producers and some workers, each a process."""

    def __init__(self, site: Site, amount: Amount, **connection: object) -> None:
        site.connection.update(connection)
        self._site = site
        self._amount = amount
        self.workers = [site.work() for _ in range(amount.workers)]
        share = str(amount.jobs // amount.producers)
        self._producers = [site.flask("produce", share) for _ in range(amount.producers)]

    def until(self, share: float) -> None:
        """Wait until this share of all jobs has ended."""
        ledger, wanted = self._site.folder / "ledger", share * self._amount.jobs
        self._wait(lambda: ledger.exists() and ledger.read_bytes().count(b'"event": "end"') >= wanted)

    def until_all_is_done(self) -> None:
        """Wait until everything that was made has ended and nothing waits or runs."""
        for producer in self._producers:
            assert producer.ended(self._amount.limit) == 0, producer.log
        self.until(1.0)
        self._wait(lambda: self._site.sizes()[:3] == (0, 0, 0))

    def said(self, level: str) -> list[str]:
        """What workers have logged at this level."""
        return [line for worker in self.workers for line in worker.lines(level)]

    def _wait(self, condition: Callable[[], bool]) -> None:
        ends = time.monotonic() + self._amount.limit
        while not condition():
            broken = [worker.log for worker in self.workers if not worker.is_alive]
            assert not broken, broken[0]
            assert time.monotonic() < ends, f"waited in vain: {self._site.sizes()}"
            time.sleep(0.1)  # looking is work, too, and the machine has enough


def assert_each_ended_once(site: Site, amount: Amount) -> None:
    """Everything that was made ended once, failing as often as it was to and no more."""
    made = [line["job"] for line in site.ledger("made")]
    failing = [line["job"] for line in site.ledger("made", fails=1)]
    attempts = Counter((line["job"], line["attempt"]) for line in site.ledger("begin"))

    assert len(made) == amount.jobs
    assert len(failing) >= amount.jobs // 25
    assert Counter(line["job"] for line in site.ledger("end")) == Counter(made)
    assert attempts == Counter([(job, 1) for job in made] + [(job, 2) for job in failing])
