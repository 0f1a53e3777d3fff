"""The `failed()` of a job whose worker is dead is called in another one: soon, and without a storm of starts."""

from __future__ import annotations

from itertools import pairwise
from urllib.parse import urlsplit

import pytest

from flask_jobs.envelope import Hook
from tests.faults.app import Brief, Gated
from tests.faults.hard_jobs import DiesAgain, Hard, SlowHook
from tests.faults.workers import Site, wait_for
from tests.proxy import proxy_to
from tests.servers import own_prefix, required_redis


def test_f17_a_hook_is_called_between_two_jobs_if_no_worker_is_ever_free(site: Site) -> None:
    url = required_redis()
    with own_prefix(url) as prefix, proxy_to(urlsplit(url).port or 6379, is_redis=False) as proxy:
        site.name = "redis"
        site.connection.update(driver="redis", url=proxy.url, prefix=prefix, retry_after=600)
        site.dispatch(Gated("hours"))  # with the first worker
        worker = site.supervise("--processes", "2")
        wait_for(lambda: site.ledger("begin", label="hours") and worker.log.count("worker started") == 2)
        (job_id,) = site.dispatch(Hard("die", tries=1))
        proxy.hold_back(0, matching=job_id.encode())
        site.dispatch(Brief("long", 3), Gated("next"))
        assert proxy.halted.wait(30)
        wait_for(lambda: site.ledger("begin", label="long"))

        proxy.let_go()
        wait_for(lambda: site.ledger("begin", label="next"))
        called = site.ledger("hook")

        assert [line["error"] for line in called] == ["WorkerDied"]
        site.close()


def test_f16_a_hook_in_another_worker_has_the_time_limit_of_its_job(site: Site) -> None:
    site.supervise("--timeout", "2").started()
    site.dispatch(SlowHook(30, limit=0.5), SlowHook(3, limit=30))
    wait_for(lambda: len(site.ledger("hook")) == 2)

    cut = {line["seconds"]: line["cut"] for line in site.ledger("hook")}
    assert cut == {30: "The attempt reached its time limit of 0.5 s.", 3: ""}


@pytest.mark.slow
def test_f18_hooks_that_end_their_workers_are_called_once_each_and_after_growing_pauses(site: Site) -> None:
    site.supervise("--threads", "4").started()
    site.dispatch(*(DiesAgain(number) for number in range(4)))
    wait_for(lambda: len(site.ledger("begin")) == 4)
    (site.folder / "die").touch()
    wait_for(lambda: len(site.ledger("hook")) >= 4)

    hooks = site.ledger("hook")
    assert sorted(line["number"] for line in hooks) == [0, 1, 2, 3]
    pauses = [after["at"] - before["at"] for before, after in pairwise(hooks)]
    assert all(pause >= least for pause, least in zip(pauses, (0.5, 1, 2), strict=True)), pauses
    assert {failed.hook for failed in site.failed()} == {Hook.RAISED}
