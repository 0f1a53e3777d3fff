"""A failed member is retried by one and thrown away by another at the same instant: it is counted for one of them."""

import threading

import pytest

from flask_jobs.ids import new_id
from flask_jobs.testing.contract.on_batches import batch
from flask_jobs.testing.contract.support import fail, pop_one

ROUNDS = [10, pytest.param(50, marks=pytest.mark.volume)]


def at_once(*steps):
    """What the steps give, all taken at the same time."""
    barrier, answers = threading.Barrier(len(steps)), {}

    def take(number, step):
        barrier.wait(timeout=30)
        answers[number] = step()

    threads = [threading.Thread(target=take, args=one) for one in enumerate(steps)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answers[number] for number in range(len(steps))]


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("how", ["flush", "forget"])
def test_f42_a_failed_member_is_either_retried_or_counted_as_skipped(driver, open_driver, how, rounds):
    other = open_driver()
    other.size("default")
    for _ in range(rounds):
        plan = batch(1, allow_failures=True)
        driver.push_batch(plan)
        driver.settle([fail(pop_one(driver))])
        (job_id,) = [push.envelope.id for push in plan.members]

        thrown_away, retried = at_once(
            lambda job_id=job_id: other.flush() if how == "flush" else other.forget(job_id),
            lambda job_id=job_id: driver.retry(job_id, new_id()),
        )

        stored = driver.batch(plan.id)
        assert (bool(thrown_away), retried) in [(True, False), (False, True)]
        assert (stored.failed, stored.skipped) == ((1, 0) if retried else (0, 1))
        assert driver.size("default").ready == retried
        driver.clear("default")
