"""Real workers on PostgreSQL and MariaDB: their sessions are ended beneath them, or their jobs' data is elsewhere."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.faults.app import Count, Gated, Row, db, jobs
from tests.faults.on_databases.test_server_away import end_all_sessions
from tests.faults.workers import wait_for


@pytest.fixture
def site_on_server(site, engine):
    """A site whose jobs are kept on the server, and whose own data is in a file."""
    site.connection["url"] = engine.url.render_as_string(hide_password=False)
    return site


@pytest.mark.slow
def test_f24_a_worker_goes_on_after_its_sessions_were_ended_amid_a_job(site_on_server, engine):
    site = site_on_server
    site.open_gate("quick", 1)
    ids = site.dispatch(Gated("long"), *(Gated("quick") for _ in range(20)))
    worker = site.work("--stop-when-empty")
    wait_for(lambda: site.ledger("begin"))

    end_all_sessions(engine)
    site.open_gate("long", 1)

    assert worker.ended() == 0, worker.log
    assert sorted(line["job"] for line in site.ledger("end")) == sorted(ids)
    assert {line["attempt"] for line in site.ledger("end")} == {1}
    assert len(worker.lines("WARNING") + worker.lines("ERROR")) <= 5, worker.log


@pytest.mark.slow
def test_f33_a_worker_finds_what_was_committed_on_another_database(site_on_server):
    site = site_on_server
    worker = site.work().started()
    with site.app.app_context():
        for number in range(20):
            row = Row(text=str(number))
            db.session.add(row)
            db.session.flush()
            dispatched = jobs.dispatch(Count(row.id))
            assert jobs.driver().find(dispatched.id) is None
            db.session.commit()

    wait_for(lambda: len(site.ledger("end")) == 20)

    assert {line["attempt"] for line in site.ledger("begin")} == {1}
    with site.app.app_context():
        assert list(db.session.scalars(sa.select(Row.number))) == [1] * 20
    assert worker.lines("WARNING") == []
