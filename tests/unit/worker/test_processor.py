from __future__ import annotations

from collections.abc import Iterator

import pytest

from flask_jobs import clock
from flask_jobs.envelope import Fail
from flask_jobs.options import WorkerDefaults
from flask_jobs.pipeline import untimed
from flask_jobs.slate import NoLane
from flask_jobs.worker.processor import Delivery, Processor
from flask_jobs.worker.renewal import Lease

from ..support.bench import Bench
from ..support.values import NOW, reservation


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench() as made:
        yield made


def processor(bench: Bench) -> Processor:
    return Processor(
        bench.store,
        bench.app.executor,
        lane=NoLane(),
        defaults=WorkerDefaults(),
        timer=untimed,
        is_stopping=lambda: False,
        jitter=lambda: 1.0,
    )


def delivery(waited: float, **given: float) -> Delivery:
    """One that has been in the worker's hands for so many seconds."""
    return Delivery(Lease(reservation(**given), clock.monotonic() + 90), clock.monotonic() - waited)  # type: ignore[arg-type]


def test_a_deadline_that_passed_in_the_workers_hands_has_passed(bench: Bench):
    bench.knows("demo", lambda self: None)

    early = processor(bench).judge(delivery(waited=10, attempts=2, retry_until=NOW + 50))
    late = processor(bench).judge(delivery(waited=100, attempts=2, retry_until=NOW + 50))

    assert early.is_done
    assert isinstance(late.settlement, Fail)
    assert "deadline" in late.settlement.error.message


def test_nothing_is_settled_or_told_by_judging(bench: Bench):
    bench.knows("demo", lambda self: None)

    verdict = processor(bench).judge(delivery(waited=0))

    assert verdict.is_done
    assert bench.store.calls == []
    assert bench.signals() == ["job-processing"]
