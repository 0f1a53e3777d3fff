"""Work through the queue: renew each lease often, and write a row of the app's own for each job."""

import json
import sqlite3
import sys
import threading
import time

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.envelope import Ack, Room
from flask_jobs.ids import new_id

file = sys.argv[1]
driver = DatabaseDriver(open_engine(f"sqlite:///{file}"))
app = sqlite3.connect(file, timeout=5.0)
held, errors, done, settled = [], [], [], []
stopped = threading.Event()


def keep_alive():
    while not stopped.wait(0.2):
        try:
            driver.renew(list(held))
        except Exception as error:
            errors.append(repr(error))


heart = threading.Thread(target=keep_alive)
heart.start()
try:
    while True:
        exchange = driver.exchange(settled, ["default"], new_id(), Room(limit=1))
        assert exchange.stale == ()
        done += [ack.reservation.envelope.id for ack in settled]
        held[:] = exchange.popped.reservations
        settled = [Ack(reservation) for reservation in held]
        if not held:
            break
        app.execute("INSERT INTO invoices (job) VALUES (?)", (held[0].envelope.id,))
        if "hold" in held[0].envelope.body:
            time.sleep(1.5)
        app.commit()
finally:
    stopped.set()
    heart.join()
print(json.dumps({"errors": errors, "done": done}))
