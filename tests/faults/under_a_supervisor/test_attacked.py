"""Jobs, apps and surroundings that do to a supervisor and its workers what nobody would expect of them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from ..app import Brief, Deaf, Elsewhere
from ..workers import Site, wait_for


def test_a_worker_whose_job_has_dropped_the_signal_leaves_all_the_same(site: Site) -> None:
    supervisor = site.supervise().started()
    site.dispatch(Deaf(3), Deaf(3))
    wait_for(lambda: site.ledger("begin"))

    site.command("restart")

    assert supervisor.ended(20) == 0, supervisor.log
    assert len(site.ledger("end")) == 1


def test_idle_threads_wait_for_work_side_by_side(site: Site) -> None:
    supervisor = site.supervise("--threads", "3").started()
    for number in range(5):
        site.dispatch(Brief(str(number), 0.1))
        wait_for(lambda number=number: len(site.ledger("end")) > number)

    supervisor.send(signal.SIGTERM)

    assert supervisor.ended() == 0
    assert not supervisor.lines("ERROR")


APP = """
import os
from flask import Flask
from flask_jobs import Job, Jobs

jobs = Jobs()
os.makedirs("elsewhere", exist_ok=True)

@jobs.register("where")
class Where(Job):
    def handle(self):
        with open("ran", "w") as file:
            file.write(os.getcwd())

def create_app(name):
    app = Flask(name)
    app.config.update(SECRET_KEY="x", JOBS_CONNECTIONS={"database": {"url": f"sqlite:///{HERE}/jobs.sqlite"}})
    jobs.init_app(app)
    os.chdir("elsewhere")
    return app
"""


def test_an_app_may_change_the_folder_it_works_in(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(f"HERE = {str(tmp_path)!r}\n{APP}")
    flask = [sys.executable, "-m", "flask", "--app", "shop:create_app('shop')"]

    subprocess.run(
        [*flask, "shell"], input="import shop\nshop.jobs.dispatch(shop.Where())\n", cwd=tmp_path, text=True, check=True
    )
    worked = subprocess.run(
        [*flask, "jobs", "work", "--stop-when-empty"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert worked.returncode == 0, worked.stderr
    assert (tmp_path / "elsewhere" / "ran").read_text() == str(tmp_path / "elsewhere")


def test_a_job_that_moves_to_another_process_group_is_ended_all_the_same(site: Site) -> None:
    supervisor = site.supervise("--tries", "1").started()
    site.dispatch(Elsewhere())

    wait_for(site.failed)

    assert [one.error.type for one in site.failed()] == ["flask_jobs.control.JobTimeout"], supervisor.log
