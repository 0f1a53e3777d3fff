"""Push jobs with every kind of due time, or print the instants that are stored, in this process's time zone."""

import datetime as dt
import json
import sys
import time
import zoneinfo

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.envelope import Envelope
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push
from flask_jobs.validation import when

file, clock, action = sys.argv[1:4]
driver = DatabaseDriver(open_engine(f"sqlite:///{file}"), clock=clock)
third = zoneinfo.ZoneInfo("Europe/Berlin")
dues = {
    "seconds": 5,
    "timedelta": dt.timedelta(seconds=5),
    "aware": dt.datetime.fromtimestamp(time.time() + 5, tz=third),
    "summer": dt.datetime(2031, 3, 30, 3, 30, tzinfo=third),
    "autumn-first": dt.datetime(2031, 10, 26, 2, 30, tzinfo=third, fold=0),
    "autumn-second": dt.datetime(2031, 10, 26, 2, 30, tzinfo=third, fold=1),
}
if action == "push":
    for name, value in dues.items():
        due = when(value, what="delay")
        driver.push([Push(Envelope(new_id(), "shop.send-invoice", name, "{}"), due=due, retry_until=due)])
    print(json.dumps([time.time(), time.tzname]))
else:
    stored = {name: driver.jobs(name)[0] for name in dues}
    print(json.dumps([{name: [job.due, job.retry_until, job.pushed_at] for name, job in stored.items()}, time.tzname]))
