"""Large payloads come whole out of the store or do not go in, and listing what failed with them takes little memory."""

from __future__ import annotations

import time
from hashlib import sha256
from random import Random

import pytest

from flask_jobs.envelope import Counters, Envelope, ErrorRecord, Fail, Room
from flask_jobs.errors import UnserializableJob
from flask_jobs.history import CHARACTERS
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push

from ..memory import peak_of
from .app import Broken, Weigh
from .workers import Site


@pytest.fixture
def limited(site: Site) -> Site:
    site.config["JOBS_MAX_PAYLOAD"] = 1_000_000
    return site


def letters(size: int) -> str:
    return Random(size).randbytes(size // 2).hex()


def test_f39_what_is_below_the_limit_arrives_whole_in_a_worker(limited: Site) -> None:
    texts = [letters(size) for size in (60_000, 70_000, 999_000)]
    limited.dispatch(*[Weigh(text) for text in texts])

    assert limited.work("--stop-when-empty").ended() == 0
    weighed = [(line["length"], line["hash"]) for line in limited.ledger("end")]
    assert weighed == [(len(text), sha256(text.encode()).hexdigest()) for text in texts]


def test_f39_what_is_above_the_limit_is_refused_with_both_sizes_and_nothing_is_stored(limited: Site) -> None:
    with pytest.raises(UnserializableJob, match=r"1100\d\d\d bytes.*1000000"):
        limited.dispatch(Weigh("small"), Weigh(letters(1_100_000)))

    assert limited.sizes() == (0, 0, 0, 0)


def test_f39_a_failure_keeps_the_whole_payload_and_a_marked_part_of_a_long_error(limited: Site) -> None:
    text = letters(999_000)
    limited.dispatch(Broken(text, size=5_000_000))

    worker = limited.work("--stop-when-empty")

    assert worker.ended() == 0
    (failed,) = limited.failed()
    assert text in failed.envelope.body
    assert failed.error.message.startswith("no!!!")
    assert failed.error.message.endswith("more characters]")
    assert len(failed.error.message) < CHARACTERS + 100
    assert len(failed.error.traceback) < CHARACTERS + 100
    assert text not in limited.command("failed") + limited.command("failed", "--json")


@pytest.mark.slow
@pytest.mark.parametrize(("amount", "size"), [(100, 999_000), pytest.param(10_000, 300_000, marks=pytest.mark.volume)])
def test_f39_listing_many_large_failures_takes_little_memory(limited: Site, amount: int, size: int) -> None:
    record = ErrorRecord("builtins.ValueError", "x" * CHARACTERS, "y" * CHARACTERS)
    body = letters(size)
    room = Room(limit=50, box=1_000.0, means={"faults.weigh": 0.0})
    with limited.driver() as driver:
        for _ in range(amount // 50):
            driver.push([Push(Envelope(new_id(), "faults.weigh", "default", body)) for _ in range(50)])
            popped = driver.pop(["default"], new_id(), room)
            driver.settle([Fail(each, record, Counters(attempts=1, errors=1)) for each in popped.reservations])

    listing = limited.flask("jobs", "failed", "--limit", str(amount), "--json")
    peak = 0.0
    while listing.process.poll() is None:
        peak = max(peak, peak_of(listing.pid))
        time.sleep(0.01)

    assert listing.process.returncode == 0
    assert listing.output.count("builtins.ValueError") >= amount
    assert peak < 200
