"""A time limit holds against everything that a job can do, and is recorded at once."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from flask_jobs.envelope import Hook
from tests.databases import POSTGRESQL, an_apps_engine, own_database, required_server
from tests.faults.app import Gated, Row
from tests.faults.hard_jobs import Hard, HardToPutOff, Lifting
from tests.faults.workers import Site, wait_for

NO_REACTION = "The attempt did not react to its time limit of 1 s, so its worker process was ended."
HARD = ["hold", "lock", "swallow errors", "swallow all"]


@pytest.mark.slow
def test_f16_a_limit_ends_native_code_waits_for_locks_and_whatever_swallows_it(site: Site, tmp_path: Path) -> None:
    with own_database(required_server(POSTGRESQL), f"flask_jobs_test_{tmp_path.name[-20:]}_f16") as url:
        site.config["SQLALCHEMY_DATABASE_URI"] = url.render_as_string(hide_password=False)
        site.connection["retry_after"] = 60
        worker = site.supervise("--processes", "4")
        wait_for(lambda: worker.log.count("worker started") == 4)
        engine = an_apps_engine(url)
        with engine.begin() as holder:
            holder.execute(sa.insert(Row).values(id=1, text="one"))
        with engine.begin() as holder:
            holder.execute(sa.update(Row).values(number=5))
            ids = dict(zip(site.dispatch(*(Hard(way, tries=1, limit=1) for way in HARD)), HARD, strict=True))
            wait_for(lambda: site.sizes() == (0, 0, 0, 4))
        served = site.dispatch(*(Gated(f"after-{number}") for number in range(4)))
        wait_for(lambda: len({line["pid"] for line in site.ledger("begin") if line["job"] in served}) == 4)
        for number in range(4):
            site.open_gate(f"after-{number}", 1)
        wait_for(lambda: site.sizes() == (0, 0, 0, 4))
        wait_for(lambda: len(site.ledger("hook")) == 4)

        took = {}
        for failed in site.failed():
            (begun,) = site.ledger("begin", job=failed.envelope.id)
            took[ids[failed.envelope.id]] = failed.failed_at - begun["at"]
            assert failed.error.type.endswith("JobTimeout"), failed.error
            assert "1 s" in failed.error.message
            (hook,) = site.ledger("hook", way=ids[failed.envelope.id])
            assert hook["error"] == "JobTimeout"
            # What can be interrupted at all is so in its process, which has its hooks to call then.
            assert (hook["pid"] == begun["pid"]) == (ids[failed.envelope.id] in ("lock", "swallow errors"))
            if ids[failed.envelope.id] in ("hold", "swallow all"):
                assert failed.error.message == NO_REACTION == hook["message"]
                ended = f"(pid {begun['pid']}) is ended: a job did not end at its time limit; it was running "
                assert f"{ended}[job:{failed.envelope.id}] faults.hard." in worker.log
        wait_for(lambda: {failed.hook for failed in site.failed()} == {Hook.RAN})
        assert all(0.9 < seconds < 1 + 2 + 2 for seconds in took.values()), took
        assert set(took) == set(HARD)
        site.close()
        engine.dispose()


@pytest.mark.slow
def test_f16_what_takes_long_to_load_is_not_ended_before_the_limit_of_its_job(site: Site) -> None:
    (job_id,) = site.dispatch(Lifting(7))

    worker = site.supervise("--timeout", "1", "--stop-when-empty")

    assert worker.ended() == 0
    assert worker.lines("WARNING") == []
    assert [(line["job"], line["attempt"]) for line in site.ledger("end")] == [(job_id, 1)]


@pytest.mark.slow
def test_f17_the_last_attempt_that_times_out_is_recorded_at_once(site: Site) -> None:
    site.connection["retry_after"] = 60
    worker = site.supervise("--processes", "2")
    wait_for(lambda: worker.log.count("worker started") == 2)

    cases = [("sleep", 1), ("swallow all", 1), ("sleep", 2), ("swallow all", 2)]
    ids = site.dispatch(*(Hard(way, tries=tries, limit=1) for way, tries in cases))
    wait_for(lambda: site.sizes() == (0, 0, 0, 4), limit=60)
    wait_for(lambda: len(site.ledger("hook")) == 4)
    wait_for(lambda: {failed.hook for failed in site.failed()} == {Hook.RAN})

    for job_id, (way, tries) in zip(ids, cases, strict=True):
        (failed,) = [failed for failed in site.failed() if failed.envelope.id == job_id]
        begun = site.ledger("begin", job=job_id)
        assert [line["attempt"] for line in begun] == list(range(1, tries + 1)), way
        assert failed.error.type.endswith("JobTimeout")
        assert failed.failed_at - begun[-1]["at"] < 5
        assert [line["error"] for line in site.ledger("hook", way=way, tries=tries)] == ["JobTimeout"]
        (told,) = {entry.reason for entry in failed.history}
        assert told == "reached its limit of 1 s" + ", and its worker process was ended" * (way == "swallow all")
    assert site.ledger("end") == []


@pytest.mark.parametrize(
    ("way", "when_failed", "error"),
    [
        ("sleep", False, "flask_jobs.control.JobTimeout"),
        ("hold", False, "flask_jobs.control.JobTimeout"),
        ("sleep", True, "ValueError"),
        ("sys.exit", False, "ValueError"),
        ("sys.exit", True, "ValueError"),
    ],
)
def test_f16_asking_a_job_for_its_pause_is_under_its_time_limit(
    site: Site, way: str, when_failed: bool, error: str
) -> None:
    worker = site.supervise().started()
    before = worker.children

    site.dispatch(HardToPutOff(way, when_failed=when_failed))
    wait_for(site.failed, limit=20)

    assert [failed.error.type for failed in site.failed()] == [error]
    assert way != "sys.exit" or worker.children == before
