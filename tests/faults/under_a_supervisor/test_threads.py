"""Jobs in the threads of one process stand in nothing of each other's, and are not charged for each other."""

from __future__ import annotations

import pytest

from tests.faults.app import Brief, Gated
from tests.faults.hard_jobs import BesideOthers, Hard
from tests.faults.workers import Site, wait_for


def test_each_thread_has_a_context_a_session_and_a_current_job_of_its_own(site: Site) -> None:
    worker = site.supervise("--threads", "3").started()
    labels = ["a", "b", "c"]
    ids = dict(zip(site.dispatch(*map(BesideOthers, labels)), labels, strict=True))
    wait_for(lambda: len(site.ledger("in")) == 3)
    (site.folder / "beside").touch()
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    entered, left = site.ledger("in"), site.ledger("out")
    assert {line["pid"] for line in entered} == set(worker.children)
    for what in ("thread", "context"):
        assert len({line[what] for line in entered}) == 3
    assert len({line["session"] for line in left}) == 3
    assert sorted((ids[line["job"]], line["g"], line["new"]) for line in left) == [(one, one, [one]) for one in labels]


@pytest.mark.slow
def test_f16_a_thread_that_hangs_takes_its_process_and_charges_no_other(site: Site) -> None:
    site.connection["retry_after"] = 600
    worker = site.supervise("--threads", "3", "--timeout", "30").started()
    hanging, *others = site.dispatch(Hard("sleep in one", tries=1, limit=1), Gated("one"), Gated("two"))
    wait_for(lambda: len(site.ledger("begin")) == 3)
    (first,) = worker.children

    wait_for(lambda: len(site.ledger("begin")) == 5)
    stored = [site.stored(job_id) for job_id in others]
    site.open_gate("one", 1)
    site.open_gate("two", 1)
    wait_for(lambda: site.sizes() == (0, 0, 0, 1))

    (failed,) = site.failed()
    assert failed.envelope.id == hanging
    assert failed.error.type.endswith("JobTimeout")
    assert failed.failed_at - site.ledger("begin", job=hanging)[0]["at"] < 5
    assert [(one.counters.attempts, one.counters.interruptions) for one in stored if one is not None] == [(1, 1)] * 2
    assert {line["attempt"] for line in site.ledger("begin")} == {1}
    assert sorted(line["job"] for line in site.ledger("end")) == sorted(others)
    assert first not in {line["pid"] for line in site.ledger("end")}


def test_a_limit_that_the_thread_heeds_lets_the_jobs_beside_it_end(site: Site) -> None:
    worker = site.supervise("--threads", "2").started()
    (before,) = worker.children
    late, other = site.dispatch(Hard("sleep", tries=1, limit=1), Gated("one"))
    wait_for(lambda: site.sizes() == (0, 0, 1, 1))
    site.open_gate("one", 1)
    wait_for(lambda: worker.children and before not in worker.children)
    site.dispatch(Brief("next"))
    wait_for(lambda: site.ledger("end", label="next"))

    assert [failed.envelope.id for failed in site.failed()] == [late]
    assert [line["attempt"] for line in site.ledger("end", job=other)] == [1]
    assert site.ledger("end", label="next")[0]["pid"] != before


def test_the_threads_of_a_process_run_no_more_jobs_than_it_is_to(site: Site) -> None:
    site.dispatch(*(Brief("one", 0.2) for _ in range(9)))

    worker = site.supervise("--threads", "4", "--max-jobs", "5")

    assert worker.ended() == 0
    assert len({line["job"] for line in site.ledger("begin")}) == len(site.ledger("end")) == 5
    assert site.sizes() == (4, 0, 0, 0)
    assert worker.log.count("as many jobs as it was to") == 4
