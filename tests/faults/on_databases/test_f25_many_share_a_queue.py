"""Ten workers and four producers share a queue: each job is done once, and no deadlock is seen by anybody."""

import threading

import pytest

from flask_jobs.drivers.database import DatabaseDriver
from flask_jobs.envelope import After
from flask_jobs.stored import Sizes
from tests.faults.support import answer, count, job, start


def pushed_by_four(engine, amount):
    """The ids that four producers push at the same time: one in twenty delayed, one in twenty to fail once."""
    ids, errors = [], []

    def produce():
        driver = DatabaseDriver(engine, owns_engine=False)
        try:
            for _ in range(amount // 4 // 20):
                pushes = [job(due=After(0.2)), job(body="fail once"), *(job() for _ in range(18))]
                ids.extend(pushed.id for pushed in driver.push(pushes[:10]))
                for push in pushes[10:]:
                    ids.extend(pushed.id for pushed in driver.push([push]))
        except Exception as error:  # whatever it is, it must not happen
            errors.append(repr(error))

    producers = [threading.Thread(target=produce) for _ in range(4)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join()
    return ids, errors


@pytest.mark.parametrize("amount", [400, pytest.param(10_000, marks=[pytest.mark.volume])])
@pytest.mark.parametrize("whose", ["own", "app"])
def test_f25_ten_workers_and_four_producers_do_each_job_once(engine, driver, amount, whose):
    url = engine.url.render_as_string(hide_password=False)
    workers = [start("share.py", url, 5, whose) for _ in range(2)]

    ids, errors = pushed_by_four(engine, amount)
    answers = [answer(worker) for worker in workers]

    assert errors == []
    assert [found["errors"] for found in answers] == [[], []]
    assert [found["stale"] for found in answers] == [[], []]
    assert sorted(id_ for found in answers for id_ in found["done"]) == sorted(ids)
    assert len(ids) == amount
    assert driver.size("default") == Sizes()
    assert count(driver, "flask_jobs") == 0
