"""Rubbish in the store is neither dropped nor tried for ever, and costs no other job anything."""

from __future__ import annotations

import json
from typing import Any

from flask_jobs.envelope import Envelope, Event
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push
from flask_jobs.serializer import Signer
from flask_jobs.stored import State

from .app import Brief, jobs
from .workers import Site, wait_for


def signed(text: str) -> str:
    return Signer("not a secret").sign(text)


def push(site: Site, body: str, name: str = "faults.brief") -> str:
    """Put a body into the store as it is."""
    with site.driver() as driver:
        (pushed,) = driver.push([Push(Envelope(new_id(), name, "default", body))])
        return str(pushed.id)


def content(site: Site) -> dict[str, Any]:
    """What the body of a good job says."""
    with site.app.app_context():
        _, body = jobs.state.serializer.encode(Brief("raw"))
    return json.loads(body.rpartition(".")[0])  # type: ignore[no-any-return]


def make_due(site: Site) -> None:
    """Let the time pass that delayed jobs wait for."""
    with site.driver() as driver, driver.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE flask_jobs SET at = 0 WHERE state = 1")


def test_f07_what_cannot_be_built_fails_as_it_is_and_the_worker_goes_on(site: Site) -> None:
    good = json.dumps(content(site))
    bodies = {
        "cut in half": signed(good)[: len(good) // 2],
        "cut in half and signed": signed(good[: len(good) // 2]),
        "no object": signed("[1, 2]"),
        "of a newer format": signed(json.dumps({**content(site), "v": 2})),
        "signed by somebody else": Signer("another").sign(good),
        "without fields": signed(json.dumps({key: value for key, value in content(site).items() if key != "fields"})),
        "not even text": "\x00\ud83d".encode("utf-8", "replace").decode(),
        "empty": "",
    }
    ids = {what: push(site, body) for what, body in bodies.items()}
    site.dispatch(Brief("good"))

    worker = site.work()
    wait_for(lambda: site.ledger("end", label="good"))
    waiting = {what for what, job_id in ids.items() if site.stored(job_id) is not None}
    wait_for(lambda: make_due(site) or site.sizes() == (0, 0, 0, len(bodies)))

    failed = {failed.envelope.id: failed for failed in site.failed()}
    assert {what: failed[job_id].envelope.body for what, job_id in ids.items()} == bodies
    assert all(entry.error.message and entry.error.type for entry in failed.values())
    assert waiting <= {"of a newer format"}
    assert site.ledger("begin", label="raw") == []
    assert worker.is_alive
    assert len(worker.lines("ERROR")) == len(bodies), worker.log


def test_f07_a_job_of_an_unknown_name_waits_for_newer_code_then_fails_and_can_be_retried(site: Site) -> None:
    body = signed(json.dumps({**content(site), "job": "faults.later", "fields": {}}))
    job_id = push(site, body, "faults.later")

    site.drain()
    waiting = site.stored(job_id)
    wait_for(lambda: make_due(site) or site.drain() or site.failed())
    (failed,) = site.failed()
    site.command("retry", job_id)
    newer = site.work("--stop-when-empty", FAULTS_LATER="1")

    assert newer.ended() == 0
    assert waiting is not None
    assert (waiting.state, waiting.counters.attempts) == (State.DELAYED, 0)
    assert waiting.history[-1].event is Event.UNKNOWN_JOB
    assert failed.error.type.endswith("UnknownJob")
    assert "faults.later" in failed.error.message
    assert failed.envelope.body == body
    assert [line["label"] for line in site.ledger("end")] == ["later"]
    assert site.sizes() == (0, 0, 0, 0)


def test_f07_a_job_of_an_unknown_name_that_newer_code_meets_in_time_is_run(site: Site) -> None:
    push(site, signed(json.dumps({**content(site), "job": "faults.later", "fields": {}})), "faults.later")
    site.drain()
    make_due(site)

    assert site.work("--stop-when-empty", FAULTS_LATER="1").ended() == 0
    assert [(line["label"], line["attempt"]) for line in site.ledger("end")] == [("later", 1)]
