"""F24: the server ends all sessions, is away, and comes back: the worker waits, says little, and loses nothing."""

from __future__ import annotations

import signal
import time

import pytest

from tests.faults.app import Brief, Gated
from tests.faults.stores import Store, own_server, store_on
from tests.faults.workers import Site, Worker, wait_for

# An outage is one line at its begin, one at its end, and one for a lease that could not be renewed.
HANDFUL = 5


def troubles(worker: Worker) -> list[str]:
    return worker.lines("WARNING") + worker.lines("ERROR")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("running", "away"),
    [pytest.param(2.0, 1.0, id="short"), pytest.param(15.0, 10.0, id="full", marks=pytest.mark.volume)],
)
def test_f24_a_running_job_and_20_queued_ones_outlive_ended_sessions_and_a_restart(
    site: Site, store: Store, running: float, away: float
) -> None:
    ids = site.dispatch(Brief("long", running), *[Brief("queued")] * 20)
    worker = site.work()
    wait_for(lambda: site.ledger("begin"))

    store.end_sessions()
    store.server.stop()
    time.sleep(away)
    store.server.start()
    wait_for(lambda: len(site.ledger("end")) == 21 and site.sizes() == (0, 0, 0, 0))
    worker.send(signal.SIGTERM)

    assert worker.ended() == 0, worker.log
    assert sorted(line["job"] for line in site.ledger("begin")) == sorted(ids)
    assert {line["attempt"] for line in site.ledger("begin")} == {1}
    assert len(troubles(worker)) <= 2 * HANDFUL, worker.log
    assert store.left_behind() == set()


@pytest.mark.slow
def test_f24_a_job_that_ends_while_the_server_is_away_is_settled_when_it_is_back(site: Site, store: Store) -> None:
    (job_id, next_id) = site.dispatch(Gated("long"), Brief("next"))
    worker = site.work("--stop-when-empty")
    wait_for(lambda: site.ledger("begin"))

    store.server.stop()
    site.open_gate("long", 1)
    wait_for(lambda: "The store is away" in worker.log)
    store.server.start()

    assert worker.ended() == 0, worker.log
    assert [line["job"] for line in site.ledger("begin")] == [job_id, next_id]
    assert len(troubles(worker)) <= HANDFUL, worker.log
    assert store.left_behind() == set()


@pytest.mark.slow
@pytest.mark.parametrize("away", [3.0, pytest.param(10.0, marks=pytest.mark.volume)])
def test_f24_an_outage_is_a_handful_of_lines_however_often_the_worker_tries(
    site: Site, store: Store, away: float
) -> None:
    worker = site.work().started()
    before = len(worker.log.splitlines())

    store.server.stop()
    time.sleep(away)
    said = worker.log.splitlines()[before:]
    store.server.start()
    wait_for(lambda: "The store is back" in worker.log)
    worker.send(signal.SIGTERM)

    assert len(said) == 1
    assert worker.ended() == 0
    assert len(worker.log.splitlines()) - before <= HANDFUL


@pytest.mark.slow
def test_f24_a_server_that_stays_away_ends_the_worker_with_a_code_of_its_own(site: Site, store: Store) -> None:
    worker = site.work("--give-up-after", "1").started()
    stopped = time.monotonic()

    store.server.stop()

    assert worker.ended() == 3, worker.log
    assert time.monotonic() - stopped >= 1
    assert "Giving up: the store has been away for" in worker.lines("ERROR")[0]
    assert "the store was away for longer than it was to wait" in worker.log


IDLE_LIMITS = {
    "postgresql": ["idle_session_timeout=1s"],
    "mariadb": ["wait-timeout=1"],
    "redis": ["timeout=1"],
}


@pytest.mark.slow
def test_f24_connections_that_the_server_cuts_when_they_are_idle_are_replaced_unnoticed(site: Site, kind: str) -> None:
    with own_server(kind, *IDLE_LIMITS[kind]) as server:
        store_on(server).serve(site)
        worker = site.work("--sleep", "30").started()
        ids = site.dispatch(Gated("long"))
        wait_for(lambda: site.ledger("begin"))

        time.sleep(1.8)  # both sides have not been heard of for longer than the limit
        ids += site.dispatch(*[Brief("queued")] * 5)
        site.open_gate("long", 1)
        wait_for(lambda: len(site.ledger("end")) == 6 and site.sizes() == (0, 0, 0, 0))
        time.sleep(1.8)
        ids += site.dispatch(Brief("late"))
        wait_for(lambda: len(site.ledger("end")) == 7 and site.sizes() == (0, 0, 0, 0), limit=5)
        worker.send(signal.SIGTERM)

        assert worker.ended() == 0, worker.log
        assert sorted(line["job"] for line in site.ledger("begin")) == sorted(ids)
        assert troubles(worker) == []
        site.close()
