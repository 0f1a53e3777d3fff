"""What a supervisor owes to its jobs while Redis dies, forgets its scripts or refuses to write."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.faults.app import Brief, Gated
from tests.faults.hard_jobs import Hard
from tests.faults.workers import Site, wait_for
from tests.proxy import proxy_to
from tests.servers import free_port, redis_server


@pytest.mark.slow
def test_f36_a_worker_that_dies_while_redis_is_away_is_settled_for_when_it_is_back(site: Site, tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    with redis_server(tmp_path / "redis", "--appendonly", "yes", "--save", "") as server:
        site.name = "redis"
        site.connection.update(driver="redis", url=f"{server.url}?socket_timeout=1", prefix="f36", retry_after=60)
        worker = site.supervise("--processes", "2").started()
        kept, hit = site.dispatch(Gated("kept"), Hard("sleep", bad=1))
        wait_for(lambda: len(site.ledger("begin")) == 2)
        (victim,) = site.ledger("begin", job=hit)

        server.stop()
        os.kill(victim["pid"], signal.SIGKILL)
        site.open_gate("kept", 1)
        wait_for(lambda: site.ledger("end", job=kept) and "SIGKILL" in worker.log)
        server.start()
        server.client().script_flush()
        server.client().replicaof("127.0.0.1", free_port())
        wait_for(lambda: "read-only" in worker.log or "refus" in worker.log.lower())
        server.client().replicaof("NO", "ONE")
        wait_for(lambda: site.ledger("end", job=hit))
        wait_for(lambda: site.sizes() == (0, 0, 0, 0))

        assert [line["attempt"] for line in site.ledger("begin", job=kept)] == [1]
        assert [line["attempt"] for line in site.ledger("begin", job=hit)] == [1, 2]
        assert len(site.ledger("end")) == 2
        assert "Traceback" not in worker.log
        site.close()


@pytest.mark.slow
def test_f36_what_a_worker_has_finished_but_had_no_time_to_settle_is_settled_for_it(site: Site, tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    with redis_server(tmp_path / "redis", "--appendonly", "yes", "--save", "") as server:
        site.name = "redis"
        site.connection.update(driver="redis", url=f"{server.url}?socket_timeout=1", prefix="f36", retry_after=60)
        worker = site.supervise().started()
        site.dispatch(Gated("one"))
        wait_for(lambda: site.ledger("begin"))
        worker.send(signal.SIGTERM)
        server.stop()
        site.open_gate("one", 1)
        wait_for(lambda: site.ledger("end") and "The store is away" in worker.log)

        worker.send(signal.SIGTERM)
        wait_for(lambda: not worker.children)
        was_waiting = worker.is_alive
        server.start()

        assert worker.ended(15) == 1
        assert was_waiting
        assert site.sizes() == (0, 0, 0, 0)
        assert len(site.ledger("begin")) == 1
        assert "could not be settled" not in worker.log
        site.close()


def test_f18_a_store_that_is_away_for_too_long_ends_the_command_with_a_code_of_its_own(
    site: Site, tmp_path: Path
) -> None:
    (tmp_path / "redis").mkdir()
    with redis_server(tmp_path / "redis") as server, proxy_to(server.port) as proxy:
        site.name = "redis"
        site.connection.update(driver="redis", url=f"{proxy.url}?socket_timeout=1", prefix="f18")
        worker = site.supervise("--processes", "2", "--give-up-after", "1")
        site.dispatch(Brief("one"))
        wait_for(lambda: site.ledger("end") and site.sizes() == (0, 0, 0, 0))

        server.kill()

        assert worker.ended(25) == 3  # well before the grace of running jobs is over
        assert [line for line in worker.lines("ERROR") if "Giving up: the store has been away" in line]
        assert "Traceback" not in worker.log
        site.renew()


@pytest.mark.slow
def test_f18_what_a_dead_worker_held_does_not_keep_a_command_that_has_given_its_store_up(
    site: Site, tmp_path: Path
) -> None:
    (tmp_path / "redis").mkdir()
    with redis_server(tmp_path / "redis") as server, proxy_to(server.port) as proxy:
        site.name = "redis"
        site.connection.update(driver="redis", url=f"{proxy.url}?socket_timeout=1", prefix="f18")
        worker = site.supervise("--give-up-after", "1")
        site.dispatch(Gated("one"))
        (begun,) = wait_for(lambda: site.ledger("begin"))

        server.kill()
        os.kill(begun["pid"], signal.SIGKILL)
        wait_for(lambda: "Giving up: the store has been away" in worker.log)

        assert worker.ended(8) == 3
        assert "it is left to its leases" in worker.log
        assert "Traceback" not in worker.log
        site.renew()
