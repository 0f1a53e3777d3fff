"""Many push the same unique jobs at the same instant: one of them stores it, all others are told which job that is."""

import threading

import pytest

from flask_jobs.drivers.database import DatabaseDriver, open_engine
from flask_jobs.envelope import Ack, Room
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push
from flask_jobs.testing.contract.keys import digest, keyed
from flask_jobs.testing.contract.support import envelope
from tests.databases import MARIADB, POSTGRESQL, empty

THREADS, ROUNDS = 6, 8


@pytest.fixture(params=["sqlite", POSTGRESQL, MARIADB], ids=["sqlite", "postgresql", "mariadb"])
def drivers(request, tmp_path, databases):
    url = f"sqlite:///{tmp_path / 'jobs.db'}" if request.param == "sqlite" else databases.url(request.param)
    drivers = [DatabaseDriver(open_engine(url)) for _ in range(THREADS)]
    drivers[0].prepare()
    empty(drivers[0].engine)
    yield drivers
    empty(drivers[0].engine)
    for driver in drivers:
        driver.close()


def at_once(drivers, step):
    """What the step gives for each driver, all taken at the same time from a thread of their own."""
    barrier, answers = threading.Barrier(len(drivers)), {}

    def take(number, driver):
        barrier.wait(timeout=30)
        try:
            answers[number] = step(number, driver)
        except Exception as error:  # whatever it is, it must not happen
            answers[number] = error

    threads = [threading.Thread(target=take, args=one) for one in enumerate(drivers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    errors = [answer for answer in answers.values() if isinstance(answer, Exception)]
    assert errors == []
    return [answers[number] for number in range(len(drivers))]


@pytest.mark.parametrize("amount", [1, 4])
def test_f12_of_many_pushes_at_once_one_stores_the_job_and_the_others_name_it(drivers, amount):
    for round_ in range(ROUNDS):
        texts = [f"invoice:{round_}:{number}" for number in range(amount)]

        def push(number, driver, texts=texts):
            # Every other one wants the keys in the opposite order.
            order = texts if number % 2 else texts[::-1]
            return driver.push([*map(keyed, order), Push(envelope())])

        answers = [answer for found in at_once(drivers, push) for answer in found]

        plain = THREADS
        stored = {answer.id for answer in answers if answer.stored}
        assert len(stored) == amount + plain
        assert {answer.holder for answer in answers if not answer.stored} <= stored
        assert {drivers[0].holder(digest(keyed(text))) for text in texts} <= stored


def test_f12_pushes_that_race_with_the_end_of_the_holder_store_one_job_or_name_it(drivers):
    for _ in range(ROUNDS):
        drivers[0].push([keyed()])
        (holder,) = drivers[0].pop(["default"], new_id(), Room()).reservations

        def step(number, driver, holder=holder):
            return driver.settle([Ack(holder)]) if number == 0 else driver.push([keyed()])[0]

        settled, *answers = at_once(drivers, step)

        assert settled.stale == ()
        stored = [answer.id for answer in answers if answer.stored]
        assert len(stored) <= 1
        assert {answer.holder for answer in answers if not answer.stored} <= {holder.envelope.id, *stored}
        assert drivers[0].holder(digest(keyed())) == (stored[0] if stored else None)
        drivers[0].clear("default")
