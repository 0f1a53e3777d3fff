"""Nothing that a request or a job sets in its context is there for the next job."""

from __future__ import annotations

import decimal
from typing import Any

from flask import g

from .app import Soil, look, tenant
from .workers import Site

ENDINGS = ["ends", "fails", "times out", "is released"]
CLEAN = {"user": None, "locale": None, "tenant": None, "precision": 28}


def contexts(site: Site) -> list[dict[str, Any]]:
    """What each job that looked around has found."""
    return [{key: line[key] for key in CLEAN} for line in site.ledger("found")]


def dispatch_from_a_request(site: Site, rounds: int) -> None:
    """Dispatch jobs that soil their context, each followed by one that looks, from a request that has a user."""
    with site.app.test_request_context(), decimal.localcontext() as context:
        g.user = g.locale = "whoever dispatches"
        token = tenant.set("globex")
        context.prec = 5
        pairs = [(Soil(ENDINGS[number % 4]), look()) for number in range(rounds)]
        site.dispatch(*[job for pair in pairs for job in pair])
        tenant.reset(token)


def test_f31_jobs_of_a_worker_find_nothing_of_those_that_failed_timed_out_or_were_released(site: Site) -> None:
    rounds = 20
    dispatch_from_a_request(site, rounds)

    worker = site.work("--stop-when-empty")

    assert worker.ended() == 0
    assert contexts(site) == [CLEAN] * rounds
    assert worker.log.count("timed out") == rounds // 4
    assert site.sizes() == (0, rounds // 4 * 3, 0, 0)
