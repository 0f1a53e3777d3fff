"""Pop and ack until the queue is empty; print each start: id, attempt, instant, reclaims seen, errors."""

import json
import sys
import time

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.envelope import Ack, Room
from flask_jobs.ids import new_id

file, lease, pause = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
driver = DatabaseDriver(open_engine(f"sqlite:///{file}"), retry_after=lease)
starts, reclaims, settled = [], 0, []
while True:
    popped = driver.exchange(settled, ["default"], new_id(), Room(limit=1)).popped
    reclaims += len(popped.reclaimed)
    starts += [[r.envelope.id, r.attempt, r.now] for r in popped.reservations]
    settled = [Ack(r) for r in popped.reservations]
    if settled:
        time.sleep(pause)
    elif driver.size("default").delayed == 0 and driver.size("default").ready == 0:
        break
    else:
        driver.wait(["default"], timeout=5.0, stopping=lambda: False)
print(json.dumps({"starts": starts, "reclaims": reclaims}))
