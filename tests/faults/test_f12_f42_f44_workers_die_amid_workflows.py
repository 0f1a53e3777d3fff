"""What stands around a job outlives the worker that had it: its unique key, its chain and its batch, on each store."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.app import Brief, Callback, CannotBeBuilt, Gated, Member, OneOfAKind, jobs
from tests.faults.stores import common_store
from tests.faults.workers import Site, Worker, wait_for

KINDS = ["sqlite", "postgresql", "mariadb", "redis"]

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("kind", KINDS)]


@contextmanager
def opened(site: Site, kind: str, folder: Path) -> Iterator[Any]:
    """The store behind the site; nothing but memories may be left in it."""
    with common_store(kind, folder) as store:
        site.connection["retry_after"] = 2
        store.serve(site)
        _ = site.app
        yield store
        site.close()


def kill(worker: Worker) -> None:
    worker.send(signal.SIGKILL)
    worker.ended()


def test_f12_a_unique_key_outlives_its_worker_and_not_its_job(site: Site, tmp_path: Path, kind: str) -> None:
    with opened(site, kind, tmp_path):
        site.open_gate("one", 2)
        (first,) = site.dispatch(OneOfAKind("one"))
        worker = site.work().started()
        wait_for(lambda: site.ledger("begin"))
        kill(worker)

        with site.app.app_context():
            while_it_is_lost = jobs.dispatch(OneOfAKind("one"))
        worker = site.work().started()
        wait_for(lambda: site.sizes() == (0, 0, 0, 1))
        site.open_gate("one", 1)
        with site.app.app_context():
            afterwards = jobs.dispatch(OneOfAKind("one"))
        wait_for(lambda: site.ledger("end"))

        assert not while_it_is_lost
        assert while_it_is_lost.holder == first
        assert afterwards
        assert [line["job"] for line in site.ledger("end")] == [afterwards.id]
        assert [job.envelope.id for job in site.failed()] == [first]


def test_f44_a_chain_goes_on_after_the_death_of_a_worker(site: Site, tmp_path: Path, kind: str) -> None:
    with opened(site, kind, tmp_path) as store:
        site.open_gate("two", 2)
        with site.app.app_context():
            links = [Brief("one"), Gated("two"), Brief("three"), Brief("four"), Brief("five")]
            jobs.chain(links, catch=Brief("sorry"))
        worker = site.work().started()
        wait_for(lambda: site.ledger("begin", label="two"))
        kill(worker)

        site.work().started()
        wait_for(lambda: site.ledger("end", label="five"))
        wait_for(lambda: site.sizes() == (0, 0, 0, 0))

        assert [line["label"] for line in site.ledger("end")] == ["one", "two", "three", "four", "five"]
        assert [line["attempt"] for line in site.ledger("begin", label="two")] == [1, 2]
        assert store.left_behind() == set()


def test_f42_a_batch_counts_every_member_however_it_ends(site: Site, tmp_path: Path, kind: str) -> None:
    with opened(site, kind, tmp_path):
        with site.app.app_context():
            ends = ["well"] * 20 + ["raise"] * 4 + ["late"] * 2 + ["kill"] * 2 + ["delete"]
            members = [*map(Member, ends), CannotBeBuilt()]
            callbacks = {"then": Callback("then"), "catch": Callback("catch"), "finally_": Callback("finally")}
            batch = jobs.batch(members, allow_failures=True, **callbacks)
        workers = [site.work(CANNOT_BE_BUILT="2") for _ in range(3)]  # one may be killed before the next is there
        wait_for(lambda: sum(worker.is_alive for worker in workers) == 1, limit=60)
        workers += [site.work(CANNOT_BE_BUILT="2") for _ in range(2)]
        wait_for(lambda: site.ledger("callback", role="finally"), limit=60)
        wait_for(lambda: site.sizes()[:3] == (0, 0, 0))
        with site.app.app_context():
            state = batch.state()

        assert (state.total, state.pending, state.done, state.failed, state.skipped) == (30, 0, 20, 9, 1)
        assert state.finished_at is not None
        told = {line["role"]: line["counts"] for line in site.ledger("callback")}
        assert len(site.ledger("callback")) == 2
        assert set(told) == {"catch", "finally"}
        assert told["finally"] == [30, 0, 20, 9, 1]
        assert len(site.failed()) == 9
