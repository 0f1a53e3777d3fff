"""Works off members and callbacks with several threads until it is told to stop, and prints what followed from them.

Arguments: url, prefix (of keys on Redis), threads. A job whose body is "fail" fails.
"""

import json
import sys
import threading

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.drivers.redis.driver import RedisDriver
from flask_jobs.envelope import Ack, ErrorRecord, Fail, Room
from flask_jobs.ids import new_id

url, prefix, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
engine = None if url.startswith("redis:") else open_engine(url)
followed, errors, stale = [], [], []
is_over = threading.Event()


def open_driver():
    if engine is None:
        return RedisDriver(url, prefix=prefix, connection="redis", retry_after=60.0)
    return DatabaseDriver(engine, retry_after=60.0, owns_engine=False)


def work(limit):
    driver = open_driver()
    room = Room(limit, 1.0, {"shop.send-invoice": 0.001})
    settlements = []
    while settlements or not is_over.is_set():
        try:
            answer = driver.exchange(settlements, ["default", "callbacks"], new_id(), room)
        except Exception as error:  # whatever it is, it must not happen
            errors.append(repr(error))
            return
        stale.extend(one.reservation.envelope.id for one in answer.stale)
        followed.extend((one.envelope.ties.batch, one.envelope.name) for one in answer.settled.followed)
        settlements = [ended(reservation) for reservation in answer.popped.reservations]
        if not settlements:
            driver.wait(["default", "callbacks"], timeout=0.05, stopping=is_over.is_set)
    driver.close()


def ended(reservation):
    if reservation.envelope.body == "fail":
        return Fail(reservation, ErrorRecord("ValueError", "no"), reservation.counters)
    return Ack(reservation)


workers = [threading.Thread(target=work, args=(1 + number % 3,)) for number in range(threads)]
for worker in workers:
    worker.start()
sys.stdin.read()
is_over.set()
for worker in workers:
    worker.join()
if engine is not None:
    engine.dispose()
print(json.dumps({"followed": followed, "errors": errors, "stale": stale}))
