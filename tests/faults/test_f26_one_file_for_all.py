"""The app and its queue share one SQLite file: workers, jobs and web write to it at once, and no lock is an error."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from flask_jobs import Job

from .app import Count, Row, db, jobs
from .workers import Site, wait_for

pytestmark = pytest.mark.alone


class Web:
    """A thread of the app that writes a row and dispatches a job, again and again."""

    def __init__(self, site: Site, job: Job | None = None) -> None:
        self.took: list[float] = []
        self.errors: list[Exception] = []
        self._app = site.app
        self._job = job
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Web:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(0.01):
            began = time.monotonic()
            try:
                with self._app.app_context():
                    db.session.add(Row(text=f"web {len(self.took)}"))
                    if self._job is not None and len(self.took) % 10 == 0:
                        jobs.dispatch(self._job)
                    db.session.commit()
            except Exception as error:
                self.errors.append(error)
            self.took.append(time.monotonic() - began)

    @property
    def usual(self) -> float:
        """What nearly all writes take at most, in seconds.

        Four workers that do nothing but write leave to chance who gets SQLite's lock next, and now and then a writer
        has bad luck for longer.
        """
        return sorted(self.took)[len(self.took) * 95 // 100]


def prepare(site: Site, *, rows: int = 1) -> None:
    with site.app.app_context():
        db.session.add_all([Row(id=number, text=f"row {number}") for number in range(1, rows + 1)])
        db.session.commit()


def number_of(site: Site, row: int) -> int:
    with site.app.app_context():
        return int(db.session.get_one(Row, row).number)


def journal(site: Site) -> Any:
    with site.app.app_context():
        return db.session.connection().exec_driver_sql("PRAGMA journal_mode").scalar()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wal", "amount", "usual"),
    # With a rollback journal readers hold writers up as well: all that is promised is that nobody waits in vain.
    [
        (True, 600, 1),
        (False, 200, 5),
        pytest.param(True, 2_000, 1, marks=pytest.mark.volume),
        pytest.param(False, 2_000, 5, marks=pytest.mark.volume),
    ],
)
def test_f26_no_locked_error_reaches_a_job_a_dispatch_or_a_log(
    site: Site, wal: bool, amount: int, usual: float
) -> None:
    site.connection.update(wal=wal, retry_after=10)
    prepare(site)
    workers = [site.work().started() for _ in range(4)]
    mode = journal(site)

    with Web(site, Count(1)) as web:
        site.dispatch(*[Count(1)] * amount)
        wait_for(lambda: len(site.ledger("end")) >= amount, limit=100)
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    total = amount + (len(web.took) + 9) // 10
    assert mode == ("wal" if wal else "delete")
    assert web.errors == []
    assert number_of(site, 1) == len(site.ledger("end")) == len(site.ledger("begin")) == total
    assert len({line["job"] for line in site.ledger("begin")}) == total
    assert not [worker for worker in workers if "locked" in worker.log or worker.lines("ERROR")]
    assert web.usual < usual


@pytest.mark.slow
@pytest.mark.parametrize("wal", [True, False])
def test_f26_a_job_that_holds_a_transaction_open_delays_the_others_and_breaks_none(site: Site, wal: bool) -> None:
    site.connection.update(wal=wal, retry_after=4)
    prepare(site)
    workers = [site.work().started() for _ in range(3)]

    site.dispatch(Count(1, hold=3), *[Count(1)] * 20)
    with Web(site) as web:
        wait_for(lambda: len(site.ledger("end")) == 21)
    wait_for(lambda: site.sizes() == (0, 0, 0, 0))

    assert number_of(site, 1) == len(site.ledger("begin")) == 21
    assert web.errors == []
    assert [line for worker in workers for line in worker.lines("WARNING") + worker.lines("ERROR")] == []
