"""Jobs in the threads of one process stand in nothing of each other's, and are not charged for each other."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from flask_jobs.drivers.redis.scripts import load
from flask_jobs.worker.pause import pause
from tests.faults.app import Brief, Gated
from tests.faults.hard_jobs import BesideOthers, Hard
from tests.faults.workers import Site, Worker, wait_for
from tests.proxy import Proxy, proxy_to
from tests.servers import own_prefix, required_redis


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


def warm(site: Site) -> Worker:
    """A worker whose threads know how long these jobs take, and so take what they want of the store together."""
    worker = site.supervise("--threads", "6").started()
    site.dispatch(*busy(18))
    wait_for(lambda: site.sizes() == (0, 0, 0, 0) and len(site.ledger("end")) == 18)
    return worker


def busy(amount: int) -> list[Hard]:
    return [Hard("sleep", seconds=0.03) for _ in range(amount)]


def ran_once(site: Site, ids: list[str]) -> bool:
    begun = Counter((line["job"], line["attempt"]) for line in site.ledger("begin") if line["job"] in ids)
    ended = Counter(line["job"] for line in site.ledger("end") if line["job"] in ids)
    return begun == Counter((job_id, 1) for job_id in ids) and ended == Counter(ids)


@contextmanager
def behind_a_proxy(site: Site) -> Iterator[Proxy]:
    url = required_redis()
    with own_prefix(url) as prefix, proxy_to(urlsplit(url).port or 6379, is_redis=False) as proxy:
        site.name = "redis"
        site.connection.update(driver="redis", url=proxy.url, prefix=prefix, retry_after=600)
        yield proxy
        site.close()


@pytest.mark.slow
@pytest.mark.parametrize("reached", [False, True], ids=["unheard", "heard"])
def test_f01_what_an_exchange_of_several_threads_leaves_behind_is_neither_lost_nor_run_twice(
    site: Site, reached: bool
) -> None:
    """The request is held up on its way to Redis, or its answer on the way back, and then the worker dies."""
    with behind_a_proxy(site) as proxy:
        worker = warm(site)
        (before,) = worker.children
        proxy.halt_at(5, carry_out=reached, matching=load("exchange").digest.encode())
        ids = site.dispatch(*busy(60))
        assert proxy.halted.wait(30)
        wait_for(lambda: len(site.ledger("begin")) == len(site.ledger("end")))
        pause(0.5, until=lambda: False)  # for what has written its end and has not quite ended

        os.kill(before, signal.SIGKILL)
        wait_for(lambda: before not in worker.children)
        proxy.thaw()
        wait_for(lambda: site.sizes() == (0, 0, 0, 0))

        assert ran_once(site, ids)


@pytest.mark.slow
def test_an_answer_that_is_lost_to_several_threads_leaves_nothing_with_any_of_them(site: Site) -> None:
    with behind_a_proxy(site) as proxy:
        warm(site)
        proxy.lose_answer(5, matching=load("exchange").digest.encode())

        ids = site.dispatch(*busy(60))
        wait_for(lambda: site.sizes() == (0, 0, 0, 0))

        assert ran_once(site, ids)


@pytest.mark.slow
def test_threads_that_are_killed_stopped_and_paused_lose_nothing_and_charge_only_what_ran(
    site_on_each_store: Site,
) -> None:
    site = site_on_each_store
    site.connection["retry_after"] = 600
    worker = warm(site)
    (before,) = worker.children
    ids = site.dispatch(*busy(120))

    wait_for(lambda: len(site.ledger("end")) > 40)
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: len({line["pid"] for line in site.ledger("begin")}) == 2)
    site.command("pause", "default")
    wait_for(lambda: site.sizes()[2] == 0)
    begun = len(site.ledger("begin"))
    waiting = [stored for job_id in ids if (stored := site.stored(job_id)) is not None]
    site.command("resume", "default")
    wait_for(lambda: len(site.ledger("begin")) > begun)
    worker.send(signal.SIGTERM)
    assert worker.ended() == 0
    ready, _, reserved, failed = site.sizes()
    site.drain()

    assert (reserved, failed) == (0, 0)
    assert ready > 0
    assert {line["job"] for line in site.ledger("end")} >= set(ids)
    # Up to six ran when their worker was killed, and each is charged for that; no other is.
    begun_at = [[line["attempt"] for line in site.ledger("begin", job=job_id)] for job_id in ids]
    twice = [attempts for attempts in begun_at if len(attempts) > 1]
    assert len(twice) <= 6
    assert all(attempts == [1, 2] for attempts in twice)
    # One may have died before it wrote that it had begun.
    assert sum(stored.counters.attempts for stored in waiting) <= 6
