"""Workers share no connection with each other or with the supervisor, whatever the app's factory has opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.databases import POSTGRESQL, own_database, required_server
from tests.faults.hard_jobs import Compare
from tests.faults.workers import Site, wait_for
from tests.servers import own_prefix, required_redis


@pytest.mark.slow
def test_f19_each_child_has_connections_of_its_own(site: Site, tmp_path: Path) -> None:
    name = f"flask_jobs_test_{tmp_path.parent.name.replace('-', '_')}_f19"
    redis = required_redis()
    with own_database(required_server(POSTGRESQL), name) as url, own_prefix(redis) as prefix:
        site.config["SQLALCHEMY_DATABASE_URI"] = url.render_as_string(hide_password=False)
        site.config["FAULTS_PREFIX"] = f"{{{prefix}:}}"
        worker = site.supervise("--processes", "3", FAULTS_TOUCH=redis)
        wait_for(lambda: worker.log.count("worker started") == 3)

        site.dispatch(*(Compare(number) for number in range(200)))
        wait_for(lambda: site.sizes() == (0, 0, 0, 0))

        ended = site.ledger("end")
        backends, clients = ({(line["pid"], line[what]) for line in ended} for what in ("backend", "client"))
        assert len(ended) == len(site.ledger("begin")) == 200
        assert [line for line in ended if line["answers"] != [line["number"], line["number"]]] == []
        for pairs in (backends, clients):
            assert len({pid for pid, _ in pairs}) == 3
            assert len({connection for _, connection in pairs}) == len(pairs)
        assert worker.lines("WARNING") == worker.lines("ERROR") == []
        site.close()
