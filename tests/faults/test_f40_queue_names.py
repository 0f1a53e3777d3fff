"""A queue name is served by the worker that names it and by no other, or refused everywhere by the same rule."""

import unicodedata

import pytest

from flask_jobs.drivers.memory import MemoryDriver
from flask_jobs.envelope import Room
from flask_jobs.errors import InvalidArgument
from flask_jobs.ids import new_id

from .support import job, open_driver

SERVED = ["a-b", "A.b", "a", "A", "a_b", "default", "x" * 80]
REFUSED = [
    *["a:b", "a,b", "a b", "名前", "", "*", "{x}", "a ", " a", "a\n", "a\x00", "x" * 81, "x" * 300],
    *[unicodedata.normalize(form, "ünï") for form in ("NFC", "NFD")],
]


@pytest.fixture(params=["memory", "sqlite"])
def driver(request, tmp_path):
    driver = MemoryDriver() if request.param == "memory" else open_driver(tmp_path / "jobs.db")
    yield driver
    driver.close()


def test_f40_each_name_is_served_by_itself_alone(driver):
    ids = {name: driver.push([job(name)])[0].id for name in SERVED}

    for name in SERVED:
        popped = driver.pop([name], new_id(), Room(50, 1.0, {"shop.send-invoice": 0.001}))
        assert [reservation.envelope.id for reservation in popped.reservations] == [ids[name]]


@pytest.mark.parametrize("name", REFUSED)
def test_f40_every_other_name_is_refused_by_every_call(driver, name):
    calls = [
        lambda: driver.push([job(name)]),
        lambda: driver.pop([name], new_id(), Room()),
        lambda: driver.exchange([], [name], new_id(), Room()),
        lambda: driver.wait([name], timeout=0.0, stopping=lambda: False),
        lambda: driver.size(name),
        lambda: driver.jobs(name),
        lambda: driver.clear(name),
        lambda: driver.pause(name),
        lambda: driver.resume(name),
        lambda: driver.failed(queue=name),
        lambda: driver.count_failed(queue=name),
        lambda: driver.retry_many(new_id, upto=1, queue=name),
        lambda: driver.flush(queue=name),
    ]

    for call in calls:
        with pytest.raises(InvalidArgument, match="is no queue name"):
            call()
    assert driver.queues() == []
