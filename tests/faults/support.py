"""What the tests of faults share: drivers on files, and real processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import sqlalchemy as sa

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.envelope import Envelope
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push

PROCESSES = Path(__file__).parent / "processes"


def open_driver(file, **options):
    driver = DatabaseDriver(open_engine(f"sqlite:///{file}"), **options)
    driver.prepare()
    return driver


def job(queue="default", *, body="{}", **options):
    return Push(Envelope(new_id(), "shop.send-invoice", queue, body), **options)


def start(script, *arguments, **environment):
    """A process that runs a script of `processes/` and prints one JSON value."""
    return subprocess.Popen(
        [sys.executable, PROCESSES / script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


def answer(process, timeout=100):
    """What the process printed; its errors, if it failed."""
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err
    return json.loads(out)


def count(driver, table):
    with driver.engine.connect() as connection:
        return connection.execute(sa.text(f"SELECT count(*) FROM {table}")).scalar()
