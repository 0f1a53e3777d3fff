"""A worker is killed at each command between the success of a link and the next one: none is lost or doubled."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.faults.app import Brief, Gated, jobs
from tests.faults.stores import Store, common_store
from tests.faults.workers import Site, Worker, wait_for
from tests.proxy import Proxy, proxy_to

PORTS = {"postgresql": 5432, "mariadb": 3306, "redis": 6379}
EACH = pytest.param(1, id="each", marks=pytest.mark.volume)
SOME = pytest.param(8, id="some")

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


class Round:
    """One chain of three, whose worker dies after its first link and before its second has ended."""

    def __init__(self, site: Site, number: int) -> None:
        self._site = site
        self.labels = [f"{number}-{link}" for link in ("one", "two", "three")]
        with site.app.app_context():
            one, two, three = self.labels
            jobs.chain([Gated(one), Gated(two), Brief(three)])

    def wait_for_first(self) -> None:
        wait_for(lambda: self._site.ledger("begin", label=self.labels[0]), limit=60)

    def let_first_end(self) -> None:
        """Let the first link end, and again, if its success was not stored."""
        self._site.open_gate(self.labels[0], 2)
        self._site.open_gate(self.labels[0], 1)

    @property
    def has_begun_second(self) -> bool:
        return bool(self._site.ledger("begin", label=self.labels[1]))

    def finish(self) -> None:
        """Let the second link end, and wait for the third."""
        self._site.open_gate(self.labels[1], 1)
        self._site.open_gate(self.labels[1], 2)
        wait_for(lambda: self._site.ledger("end", label=self.labels[2]), limit=60)
        wait_for(lambda: self._site.sizes() == (0, 0, 0, 0))

    def is_first_repeated(self) -> bool:
        """Whether the success was not stored; fails if a link was lost or doubled."""
        ends = [line["label"] for line in self._site.ledger("end") if line["label"] in self.labels]
        ids = {(line["label"], line["job"]) for line in self._site.ledger("begin") if line["label"] in self.labels}
        is_repeated = ends.count(self.labels[0]) == 2

        assert ends[is_repeated:] == self.labels
        assert len(ids) == 3
        return is_repeated


def assert_all_or_nothing(repeated: list[bool]) -> None:
    """Up to some command the success is not stored, so that the link is repeated; from there on all of it is."""
    assert repeated == sorted(repeated, reverse=True)
    assert not repeated[-1]


@contextmanager
def opened(site: Site, kind: str, folder: Path) -> Iterator[Store]:
    with common_store(kind, folder) as store:
        site.connection["retry_after"] = 3
        store.serve(site)
        _ = site.app
        yield store
        site.close()


@contextmanager
def workers_behind_a_proxy(site: Site, kind: str) -> Iterator[Proxy]:
    """Let workers, and nobody else, reach the store through a proxy."""
    settings = site.config["JOBS_CONNECTIONS"]["redis"] if kind == "redis" else site.connection
    url = sa.make_url(settings["url"])
    with proxy_to(url.port or PORTS[kind], is_redis=kind == "redis") as proxy:
        near = url.set(host="127.0.0.1", port=proxy.port)
        settings["url"] = near.render_as_string(hide_password=False)
        yield proxy


def kill(worker: Worker) -> None:
    worker.send(signal.SIGKILL)
    worker.ended()


@pytest.mark.parametrize("step", [SOME, EACH])
@pytest.mark.parametrize(
    "carried_out", [pytest.param(False, id="before it"), pytest.param(True, id="after it", marks=pytest.mark.volume)]
)
@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "redis"])
def test_f44_a_worker_that_is_killed_at_any_message_between_two_links_loses_and_doubles_none(
    site: Site, tmp_path: Path, kind: str, carried_out: bool, step: int
) -> None:
    with opened(site, kind, tmp_path) as store, workers_behind_a_proxy(site, kind) as proxy:
        worker, message, repeated, is_over = site.work(), 0, [], False
        while not is_over:
            chain = Round(site, message)
            chain.wait_for_first()
            proxy.halt_at(message, carry_out=carried_out)
            chain.let_first_end()
            wait_for(lambda chain=chain: proxy.halted.is_set() or chain.has_begun_second, limit=60)
            is_over = not proxy.halted.is_set()
            kill(worker)
            proxy.heal()
            proxy.thaw()
            worker = site.work()
            chain.finish()
            repeated.append(chain.is_first_repeated())
            message += step
        worker.end()

        assert_all_or_nothing(repeated)
        assert repeated[0] or carried_out
        assert store.left_behind() == set()
        print(f"killed at {len(repeated)} messages of {message}")


@pytest.mark.parametrize("step", [SOME, EACH])
def test_f44_a_worker_that_dies_at_any_statement_between_two_links_loses_and_doubles_none(
    site: Site, tmp_path: Path, step: int
) -> None:
    with opened(site, "sqlite", tmp_path) as store:
        statement, repeated, is_over = 0, [], False
        while not is_over:
            chain = Round(site, statement)
            worker = site.work(FAULTS_DIE_AFTER=f"{chain.labels[0]} {statement}")
            chain.let_first_end()
            wait_for(lambda worker=worker, chain=chain: not worker.is_alive or chain.has_begun_second, limit=60)
            is_over = worker.is_alive
            worker.end()
            worker = site.work()
            chain.finish()
            worker.end()
            repeated.append(chain.is_first_repeated())
            statement += step

        assert_all_or_nothing(repeated)
        assert repeated[0]
        assert store.left_behind() == set()
        print(f"killed at {len(repeated)} statements of {statement}")
