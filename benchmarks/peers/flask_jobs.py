"""The library itself, as an app uses it: dispatched in an app context, run by `flask jobs work`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..app import create_app, job, jobs
from . import Peer


class FlaskJobs(Peer):
    def prepare(self) -> None:
        create_app().app_context().push()
        jobs.driver().prepare()

    def dispatch(self, number: int, seconds: float) -> None:
        jobs.dispatch(job(number, seconds))

    def dispatch_many(self, numbers: Sequence[int], seconds: float) -> None:
        jobs.dispatch_many([job(number, seconds) for number in numbers])

    def command(self, processes: int, threads: int) -> list[str]:
        options = ["--processes", str(processes), "--threads", str(threads)]
        return [sys.executable, "-m", "flask", "--app", "benchmarks.app", "jobs", "work", *options]


peer = FlaskJobs()
