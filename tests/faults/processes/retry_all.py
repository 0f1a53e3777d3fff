"""Retry all that had failed when it began, or so many portions of it; print how much, and the memory it took."""

import json
import sys

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.ids import new_id
from tests.memory import peak_of

file, upto, portions = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
driver = DatabaseDriver(open_engine(f"sqlite:///{file}"))
retried = 0
while portions and (portion := driver.retry_many(new_id, upto=upto)):
    retried += len(portion)
    portions -= 1
print(json.dumps({"retried": retried, "megabytes": peak_of()}))
