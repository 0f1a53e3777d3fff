"""A seeded sample of what `make chaos` does for minutes, and the amounts that a release has to stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.faults import ALL, WORKERS_ONLY
from tests.chaos.rounds import Rounds
from tests.chaos.run import Plan, run

SERVERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("postgresql", "mariadb")]


@pytest.mark.parametrize("store", ["sqlite", "redis", *SERVERS])
def test_workers_that_are_killed_at_random_lose_no_job_and_double_none(store: str, tmp_path: Path) -> None:
    plan = Plan(store, seed=4, jobs=120, strikes=4, processes=2, faults=WORKERS_ONLY)

    report = run(plan, tmp_path)

    assert report.findings.wrong == [], "\n".join(report.lines())


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize(
    ("store", "seconds"),
    [("redis", 8), *(pytest.param(name, 15, marks=pytest.mark.volume) for name in ("sqlite", "postgresql", "mariadb"))],
)
def test_faults_of_all_kinds_lose_no_job(store: str, seconds: int, tmp_path: Path) -> None:
    plan = Plan(store, seed=7, seconds=seconds, every=0.8, lease=4, commands=2, processes=2, faults=ALL)

    report = run(plan, tmp_path)

    assert report.findings.wrong == [], "\n".join(report.lines())


@pytest.mark.volume
@pytest.mark.parametrize("store", ["postgresql", "redis"])
def test_500_workers_killed_amid_20_000_jobs(store: str, tmp_path: Path) -> None:
    plan = Plan(store, seed=1, jobs=20_000, strikes=500, processes=6, patience=120, faults={"kill worker": 1})

    report = run(plan, tmp_path)

    assert report.findings.wrong == [], "\n".join(report.lines())
    assert report.faults["kill worker"] >= 500


@pytest.mark.volume
@pytest.mark.parametrize("store", ["sqlite", "postgresql", "mariadb", "redis"])
def test_300_polite_stops_at_random_moments_leave_nothing_reserved(store: str, tmp_path: Path) -> None:
    rounds = Rounds(store, seed=1, rounds=300)

    rounds.run(tmp_path)

    assert rounds.wrong == [], "\n".join(rounds.lines())
    assert rounds.done == 300
