"""A job that loses its connection while it adds many members to its batch does not hold the batch open for ever."""

import pytest

from flask_jobs import Job, current_job
from tests.apps import Note, Shop


class Quiet(Job):
    def handle(self):
        pass


@pytest.fixture
def shop(tmp_path, proxy, prefix):
    connections = {"redis": {"url": proxy.url, "prefix": prefix}}
    shop = Shop("flask_sqlalchemy", tmp_path, JOBS_DEFAULT="redis", JOBS_CONNECTIONS=connections)
    shop.jobs.register("quiet")(Quiet)
    with shop.context():
        yield shop
    shop.close()


@pytest.mark.parametrize("attempts", [1, 2])
def test_f43_a_batch_finishes_although_a_member_was_cut_short_while_it_added_others(shop, proxy, attempts):
    class Spread(Job):
        max_attempts = attempts
        backoff = 0

        def handle(self):
            if current_job.attempt == 1:
                batch = current_job.batch
                proxy.cut_before(1)
                batch.add([Quiet() for _ in range(1_200)])

    shop.jobs.register("spread")(Spread)
    batch = shop.jobs.batch([Spread()], finally_=Note("over"), allow_failures=True)

    shop.work()

    state = batch.state()
    assert proxy.cuts_made == 1
    assert (state.total, state.pending, state.is_whole) == (1_001, 0, True)
    assert state.failed == (1 if attempts == 1 else 0)
    assert shop.noted == ["over"]
