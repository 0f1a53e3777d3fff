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
held, errors, done = [], [], []
stopped = threading.Event()


def keep_alive():
    while not stopped.wait(0.02):
        try:
            driver.renew(list(held))
        except Exception as error:
            errors.append(repr(error))


heart = threading.Thread(target=keep_alive)
heart.start()
try:
    while reservations := driver.pop(["default"], new_id(), Room(limit=1)).reservations:
        held[:] = reservations
        app.execute("INSERT INTO invoices (job) VALUES (?)", (reservations[0].envelope.id,))
        if "hold" in reservations[0].envelope.body:
            time.sleep(1.5)
        app.commit()
        held.clear()
        assert driver.settle([Ack(reservations[0])]) == []
        done.append(reservations[0].envelope.id)
finally:
    stopped.set()
    heart.join()
print(json.dumps({"errors": errors, "done": done}))
