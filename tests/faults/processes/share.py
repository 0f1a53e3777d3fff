"""Works off a database with several threads until it is empty, and prints what was done and what went wrong.

Arguments: url, threads, "own" for an engine of the driver's or "app" for one as an app makes it.
"""

import json
import sys
import threading
import time

import sqlalchemy as sa

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.envelope import Ack, After, Counters, Entry, Event, Release, Room
from flask_jobs.ids import new_id

url, threads, whose = sys.argv[1], int(sys.argv[2]), sys.argv[3]
engine = open_engine(url) if whose == "own" else sa.create_engine(url, pool_size=threads)
done, errors, stale = [], [], []
is_all_pushed = threading.Event()
room = Room(10, 1.0, {"shop.send-invoice": 0.001})


def work():
    driver = DatabaseDriver(engine, retry_after=60.0)
    settlements = []
    while True:
        try:
            answer = driver.exchange(settlements, ["default"], new_id(), room)
        except Exception as error:  # whatever it is, it must not happen
            errors.append(repr(error))
            return
        stale.extend(settlement.reservation.envelope.id for settlement in answer.stale)
        settlements = [ended(reservation) for reservation in answer.popped.reservations]
        sizes = driver.size("default")
        if not settlements and is_all_pushed.is_set() and sizes.ready == sizes.delayed == 0:
            return


def ended(reservation):
    time.sleep(0.001)
    if reservation.envelope.body == "fail once" and reservation.attempt == 1:
        entry = Entry(Event.ERROR, reservation.now, 1, "once")
        return Release(reservation, After(0.05), Counters(1, 1), entry)
    done.append(reservation.envelope.id)
    return Ack(reservation)


workers = [threading.Thread(target=work) for _ in range(threads)]
for worker in workers:
    worker.start()
sys.stdin.read()
is_all_pushed.set()
for worker in workers:
    worker.join()
engine.dispose()
print(json.dumps({"done": done, "errors": errors, "stale": stale}))
