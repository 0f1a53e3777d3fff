"""What becomes of a job does not depend on luck: each instant in which its worker can die has its answer."""

from __future__ import annotations

import os
import signal
from urllib.parse import urlsplit

import pytest

from flask_jobs.drivers.redis.scripts import load
from flask_jobs.envelope import Hook
from tests.faults.app import Brief, Broken, Gated
from tests.faults.hard_jobs import FailsAtAGate, Hard, Risky, Uninterrupted
from tests.faults.workers import Site, wait_for
from tests.proxy import proxy_to
from tests.servers import own_prefix, required_redis


@pytest.mark.slow
def test_f01_a_job_whose_body_has_not_begun_is_not_charged_for_the_death_of_its_worker(site: Site) -> None:
    site.connection["retry_after"] = 600
    (site.folder / "loading").touch()
    (site.folder / "middleware").touch()

    site.supervise().started()
    site.dispatch(Uninterrupted())
    (job_id,) = site.dispatch(Risky())
    wait_for(lambda: len(site.ledger("fused")) == 1)
    wait_for(lambda: (stored := site.stored(job_id)) is not None and stored.counters.interruptions >= 1)
    wait_for(lambda: site.ledger("end", job=job_id))
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    assert [line["name"] for line in site.ledger("fused")] == ["loading", "middleware"]
    assert [(line["job"], line["attempt"]) for line in site.ledger("begin", label="risky")] == [(job_id, 1)]


@pytest.mark.slow
@pytest.mark.parametrize("reached", [False, True], ids=["unheard", "heard"])
def test_f01_a_finished_job_is_acknowledged_for_a_worker_that_died_settling_it(site: Site, reached: bool) -> None:
    """The settlement is held up on its way to Redis, or its answer on the way back, and then the worker dies.

    With the answer would have come the next job: it was popped in the same round trip, by a worker who never knew.
    """
    url = required_redis()
    with own_prefix(url) as prefix, proxy_to(urlsplit(url).port or 6379, is_redis=False) as proxy:
        site.name = "redis"
        site.connection.update(driver="redis", url=proxy.url, prefix=prefix, retry_after=600)
        worker = site.supervise().started()
        (job_id,) = site.dispatch(Gated("one"))
        (begun,) = wait_for(lambda: site.ledger("begin"))
        (next_id,) = site.dispatch(Brief("next"))
        proxy.halt_at(0, carry_out=reached, matching=job_id.encode())

        site.open_gate("one", 1)
        assert proxy.halted.wait(30)
        os.kill(begun["pid"], signal.SIGKILL)
        wait_for(lambda: begun["pid"] not in worker.children)
        proxy.thaw()
        wait_for(lambda: site.ledger("end", job=next_id))
        wait_for(lambda: site.sizes() == (0, 0, 0, 0))

        assert [(line["job"], line["attempt"]) for line in site.ledger("begin")] == [(job_id, 1), (next_id, 1)]
        assert len(site.ledger("end")) == 2
        assert [line for line in worker.log.splitlines() if job_id in line and "processed" in line]
        site.close()


def test_f01_what_the_pop_of_a_dead_worker_takes_later_than_it_is_looked_for_is_looked_for_again(site: Site) -> None:
    url = required_redis()
    with own_prefix(url) as prefix, proxy_to(urlsplit(url).port or 6379, is_redis=False) as proxy:
        site.name = "redis"
        site.connection.update(driver="redis", url=proxy.url, prefix=prefix, retry_after=600)
        worker = site.supervise().started()
        (before,) = worker.children
        proxy.hold_back(0, matching=load("pop").digest.encode())
        assert proxy.halted.wait(30)

        worker.process.send_signal(signal.SIGUSR2)
        os.kill(before, signal.SIGKILL)
        wait_for(lambda: worker.children and before not in worker.children)
        (job_id,) = site.dispatch(Brief("late"))
        proxy.let_go()
        assert proxy.carried_out.wait(30)
        wait_for(lambda: site.sizes() == (1, 0, 0, 0))
        worker.process.send_signal(signal.SIGCONT)
        wait_for(lambda: site.sizes() == (0, 0, 0, 0))

        assert [(line["job"], line["attempt"]) for line in site.ledger("end")] == [(job_id, 1)]
        site.close()


def test_f01_what_a_pop_takes_when_nobody_waits_for_its_answer_any_more_is_looked_for_again(site: Site) -> None:
    url = required_redis()
    with own_prefix(url) as prefix, proxy_to(urlsplit(url).port or 6379, is_redis=False) as proxy:
        site.name = "redis"
        site.connection.update(driver="redis", url=f"{proxy.url}?socket_timeout=2", prefix=prefix, retry_after=600)
        site.supervise().started()
        proxy.hold_back(0, matching=load("pop").digest.encode())
        assert proxy.halted.wait(30)

        site.dispatch(Gated("next"))
        wait_for(lambda: site.ledger("begin", label="next"))
        (job_id,) = site.dispatch(Brief("late"))
        proxy.let_go()
        assert proxy.carried_out.wait(30)
        assert site.sizes() == (0, 0, 2, 0)
        site.open_gate("next", 1)
        wait_for(lambda: site.sizes() == (0, 0, 0, 0))

        assert [line["attempt"] for line in site.ledger("begin", job=job_id)] == [1]
        site.close()


@pytest.mark.slow
def test_f01_the_hook_of_a_job_that_failed_with_its_worker_runs_once_in_a_healthy_one(site: Site) -> None:
    worker = site.supervise("--stop-when-empty", "--processes", "2")
    ids = site.dispatch(Hard("die", tries=1), Hard("die", tries=2))
    code = worker.ended()

    assert code == 0
    assert sorted(failed.envelope.id for failed in site.failed()) == sorted(ids)
    assert {failed.hook for failed in site.failed()} == {Hook.RAN}
    assert sorted((line["tries"], line["error"]) for line in site.ledger("hook")) == [
        (1, "WorkerDied"),
        (2, "WorkerDied"),
    ]
    for job_id, tries in zip(ids, (1, 2), strict=True):
        killed = {line["pid"] for line in site.ledger("begin", job=job_id)}
        assert not killed & {line["pid"] for line in site.ledger("hook", tries=tries)}
    assert all("SIGKILL" in line["message"] for line in site.ledger("hook"))
    assert [line["attempt"] for line in site.ledger("begin", job=ids[1])] == [1, 2]


@pytest.mark.slow
def test_f17_a_hook_that_its_worker_did_not_live_to_call_is_called_in_another(site: Site) -> None:
    """The worker dies when its job is recorded as failed, before it hears of that."""
    url = required_redis()
    with own_prefix(url) as prefix, proxy_to(urlsplit(url).port or 6379, is_redis=False) as proxy:
        site.name = "redis"
        site.connection.update(driver="redis", url=proxy.url, prefix=prefix, retry_after=600)
        site.supervise().started()
        (first,) = site.dispatch(Broken())  # from now on the server knows all scripts
        wait_for(lambda: site.failed())
        (job_id,) = site.dispatch(FailsAtAGate())
        (begun,) = wait_for(lambda: site.ledger("begin", job=job_id))
        proxy.halt_at(0, carry_out=True, matching=job_id.encode())

        (site.folder / "gate").touch()
        assert proxy.halted.wait(30)
        os.kill(begun["pid"], signal.SIGKILL)
        proxy.thaw()
        (hook,) = wait_for(lambda: site.ledger("hook"))
        wait_for(lambda: {failed.envelope.id: failed.hook for failed in site.failed()}[job_id] is Hook.RAN)

        errors = {failed.envelope.id: failed.error.type for failed in site.failed()}
        assert errors == {first: "ValueError", job_id: "ValueError"}
        assert hook["pid"] != begun["pid"]
        assert hook["message"] == "ValueError: as told"
        site.close()


@pytest.mark.slow
def test_f17_a_hook_that_ends_its_worker_is_not_called_again(site: Site) -> None:
    site.supervise().started()
    for name in ("gate", "hook"):
        (site.folder / name).touch()
    site.dispatch(FailsAtAGate())
    wait_for(lambda: site.ledger("fused"))
    site.dispatch(Brief("next"))
    wait_for(lambda: site.ledger("end", label="next"))
    wait_for(lambda: site.sizes() == (0, 0, 0, 1))

    assert len(site.ledger("hook")) == 1


@pytest.mark.slow
def test_f17_a_hook_does_not_wait_behind_a_long_job(site: Site) -> None:
    url = required_redis()
    with own_prefix(url) as prefix, proxy_to(urlsplit(url).port or 6379) as proxy:
        site.name = "redis"
        site.connection.update(driver="redis", url=proxy.url, prefix=prefix, retry_after=600)
        worker = site.supervise("--processes", "2", FAULTS_SLOW="3")
        wait_for(lambda: worker.log.count("worker started") == 2)
        site.dispatch(Gated("long"))
        wait_for(lambda: site.ledger("begin"))
        site.dispatch(Hard("os._exit", tries=1))
        proxy.delay = 0.3  # so that a fresh process is on its way before the store has recorded the failure
        wait_for(lambda: site.ledger("hook"))

        assert site.ledger("end") == []
        proxy.delay = 0.0
        site.close()
