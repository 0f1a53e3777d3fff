"""Move one job round and round in a child, kill the child at random instants, and say where the job was each time."""

import json
import os
import random
import signal
import sys
import time

import sqlalchemy as sa

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.envelope import After, Entry, Envelope, ErrorRecord, Event, Fail, Release, Room
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push

file, way, kills = sys.argv[1], sys.argv[2], int(sys.argv[3])


def open_driver():
    return DatabaseDriver(open_engine(f"sqlite:///{file}"), retry_after=0.001)


def release(driver):
    for reservation in driver.pop(["default"], new_id(), Room()).reservations:
        entry = Entry(Event.RELEASED, reservation.now, reservation.attempt)
        driver.settle([Release(reservation, After(0.0), reservation.counters, entry)])


def retry(driver):
    for reservation in driver.pop(["default"], new_id(), Room()).reservations:
        driver.settle([Fail(reservation, ErrorRecord("E", "m"), reservation.counters)])
    for failed in driver.failed():
        driver.retry(failed.envelope.id, new_id())


def go_round():
    driver = open_driver()
    while True:
        {"release": release, "retry": retry}[way](driver)


def places(engine):
    """How many rows the job has among the stored and among the failed."""
    with engine.connect() as connection:
        return [
            connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar()
            for table in ("flask_jobs", "flask_jobs_failed")
        ]


first = open_driver()
first.prepare()
first.push([Push(Envelope(new_id(), "shop.send-invoice", "default", "{}"))])
first.close()
seen = []
for _ in range(kills):
    child = os.fork()
    if not child:
        go_round()
    time.sleep(0.05 + random.random() * 0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    engine = open_engine(f"sqlite:///{file}")
    seen.append(places(engine))
    engine.dispose()
print(json.dumps(seen))
