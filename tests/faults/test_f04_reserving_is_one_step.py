"""No cleaning pass takes a job from a worker that has just popped it: every pop is such a pass, and in one step."""

import pytest

from .support import answer, job, open_driver, start


@pytest.mark.parametrize("amount", [300, pytest.param(5_000, marks=pytest.mark.volume)])
def test_f04_four_workers_start_each_job_once_and_never_again(tmp_path, amount):
    driver = open_driver(tmp_path / "jobs.db")
    ids = [pushed.id for pushed in driver.push([job() for _ in range(amount)])]

    workers = [start("drain.py", tmp_path / "jobs.db", 5.0, 0.001) for _ in range(4)]
    answers = [answer(worker) for worker in workers]

    starts = [start_ for found in answers for start_ in found["starts"]]
    assert sorted(job_id for job_id, _, _ in starts) == sorted(ids)
    assert {attempt for _, attempt, _ in starts} == {1}
    assert sum(found["reclaims"] for found in answers) == 0
    assert driver.count_failed() == 0
    driver.close()
