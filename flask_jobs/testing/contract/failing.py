"""What the store of failed jobs promises: a job is in exactly one place, and can be brought back once."""

from __future__ import annotations

import pytest

from ... import clock
from ...driver import PORTION, StoresFailedJobs
from ...envelope import Ack, After, Counters, ErrorRecord, Event, Hook
from ...errors import InvalidArgument
from ...ids import new_id
from ...pushes import Push
from ...stored import FailedJob, Sizes
from .support import BAD_NAMES, ERROR, Advance, Contract, envelope, fail, pop, pop_one, push, roomy


class StoresFailedJobsContract(Contract):
    """Failed jobs: promise 4 where a job fails, and promise 8."""

    capability = StoresFailedJobs

    def test_a_failed_job_is_kept_whole_and_waits_no_more(
        self, driver: StoresFailedJobs, second: StoresFailedJobs
    ) -> None:
        push(driver)
        reservation = pop_one(driver)

        driver.settle([fail(reservation)])

        failed = second.find_failed(reservation.envelope.id)
        assert failed is not None
        assert (failed.envelope, failed.error, failed.hook) == (reservation.envelope, ERROR, Hook.PENDING)
        assert failed.counters == Counters(attempts=1)
        assert failed.pushed_at == reservation.pushed_at
        assert reservation.now <= failed.failed_at <= pop(driver).now
        assert [entry.event for entry in failed.history] == [Event.ERROR]
        assert driver.size("default") == Sizes()

    def test_an_error_is_recorded_whatever_it_says(self, driver: StoresFailedJobs) -> None:
        push(driver)
        nasty = "zero \x00, lone \ud800, long " + "x" * 200_000

        driver.settle([fail(pop_one(driver), ErrorRecord(nasty, nasty, nasty, (nasty[:20],)))])

        (failed,) = driver.failed()
        assert failed.error.message.startswith("zero \\x00, lone \\ud800, long xxx")
        assert len(failed.error.message) < 65_000
        assert "more characters" in failed.error.traceback

    def test_failed_jobs_come_in_pages_the_newest_first(self, driver: StoresFailedJobs) -> None:
        ids = failed_jobs(driver, 7)

        pages: list[list[str]] = []
        before = None
        while page := driver.failed(before=before, limit=3):
            pages.append([job.envelope.id for job in page])
            before = page[-1].position

        newest_first = ids[::-1]
        assert pages == [newest_first[:3], newest_first[3:6], newest_first[6:]]

    def test_failed_jobs_are_chosen_and_counted_by_queue_and_name(self, driver: StoresFailedJobs) -> None:
        for queue, name in (("a", "x"), ("a", "y"), ("b", "x"), ("b", "x")):
            failed_jobs(driver, 1, queue=queue, name=name)

        def chosen(queue: str | None, name: str | None) -> tuple[int, int]:
            jobs = driver.failed(queue=queue, name=name)
            assert all(queue in (None, job.envelope.queue) and name in (None, job.envelope.name) for job in jobs)
            return len(jobs), driver.count_failed(queue=queue, name=name)

        assert chosen(None, None) == (4, 4)
        assert chosen("a", None) == (2, 2)
        assert chosen(None, "x") == (3, 3)
        assert chosen("b", "x") == (2, 2)
        assert chosen("b", "y") == (0, 0)

    def test_a_retried_job_is_a_new_one_that_names_the_old(
        self, driver: StoresFailedJobs, second: StoresFailedJobs
    ) -> None:
        (old_id,) = failed_jobs(driver, 1)
        old, fresh = _found(driver, old_id), new_id()

        retried = driver.retry(old_id, fresh)

        again = pop_one(second)
        assert retried
        assert (again.envelope.id, again.envelope.retried_from) == (fresh, old_id)
        assert (again.envelope.body, again.envelope.name) == (old.envelope.body, old.envelope.name)
        assert again.counters == Counters(attempts=1)
        assert [entry.event for entry in again.history] == [Event.ERROR, Event.RETRIED]
        assert driver.find_failed(old_id) is None
        assert driver.count_failed() == 0

    def test_a_failed_job_is_retried_once(self, driver: StoresFailedJobs, second: StoresFailedJobs) -> None:
        (old_id,) = failed_jobs(driver, 1)

        assert [driver.retry(old_id, new_id()), second.retry(old_id, new_id())] == [True, False]
        assert driver.size("default") == Sizes(ready=1)
        assert not driver.retry(new_id(), new_id())

    def test_a_retry_starts_the_deadline_anew(self, driver: StoresFailedJobs, advance: Advance) -> None:
        sent = envelope()
        driver.push([Push(sent, retry_until=After(500.0))])
        driver.settle([fail(pop_one(driver))])
        advance(self.delay)
        driver.retry(sent.id, new_id())

        again = pop_one(driver)

        assert again.pushed_at == pytest.approx(again.now, abs=self.delay / 2)
        assert again.retry_until == pytest.approx(again.pushed_at + 500.0, abs=0.1)

    def test_a_job_that_fails_again_after_each_retry_is_in_one_place(self, driver: StoresFailedJobs) -> None:
        (id_,) = failed_jobs(driver, 1)
        for _ in range(3):
            fresh = new_id()
            driver.retry(id_, fresh)
            driver.settle([fail(pop_one(driver))])
            id_ = fresh

        assert [job.envelope.id for job in driver.failed()] == [id_]
        assert len(driver.retry_many(new_id, upto=driver.newest_failed())) == 1
        assert driver.size("default") == Sizes(ready=1)

    def test_retrying_all_is_bounded_and_leaves_what_failed_after_it_began(self, driver: StoresFailedJobs) -> None:
        old = failed_jobs(driver, 5)
        upto = driver.newest_failed()
        newer = failed_jobs(driver, 2)

        portions: list[list[str]] = []
        while portion := driver.retry_many(new_id, upto=upto, limit=2):
            portions.append([old_id for old_id, _ in portion])
            newer += failed_jobs(driver, 1, queue="other")

        assert portions == [old[:2], old[2:4], old[4:]]
        assert {job.envelope.id for job in driver.failed()} == set(newer)
        retried = pop(driver, room=roomy()).reservations
        assert [reservation.envelope.retried_from for reservation in retried] == old

    def test_a_position_is_not_given_out_twice(self, driver: StoresFailedJobs) -> None:
        failed_jobs(driver, 2)
        newest = driver.newest_failed()
        driver.retry_many(new_id, upto=newest)
        failed_jobs(driver, 1, queue="other")

        assert driver.newest_failed() > newest
        assert driver.retry_many(new_id, upto=newest) == []

    def test_retrying_many_may_be_kept_to_a_queue_or_a_name(self, driver: StoresFailedJobs) -> None:
        failed_jobs(driver, 1, queue="a", name="x")
        (of_b,) = failed_jobs(driver, 1, queue="b", name="x")
        (of_y,) = failed_jobs(driver, 1, queue="a", name="y")
        upto = driver.newest_failed()

        assert [old for old, _ in driver.retry_many(new_id, upto=upto, queue="b")] == [of_b]
        assert [old for old, _ in driver.retry_many(new_id, upto=upto, name="y")] == [of_y]
        assert driver.count_failed() == 1

    def test_a_failed_job_can_be_forgotten(self, driver: StoresFailedJobs) -> None:
        first, second_ = failed_jobs(driver, 2)

        assert [driver.forget(first), driver.forget(first), driver.forget(new_id())] == [True, False, False]
        assert [job.envelope.id for job in driver.failed()] == [second_]

    @pytest.mark.parametrize("name", BAD_NAMES)
    def test_a_queue_that_cannot_be_is_refused(self, driver: StoresFailedJobs, name: str) -> None:
        failed_jobs(driver, 1)

        for ask in (driver.failed, driver.count_failed, driver.flush):
            with pytest.raises(InvalidArgument):
                ask(queue=name)
        with pytest.raises(InvalidArgument):
            driver.retry_many(new_id, upto=driver.newest_failed(), queue=name)
        assert driver.count_failed() == 1

    def test_flushing_is_bounded_and_may_be_kept_to_a_queue(self, driver: StoresFailedJobs) -> None:
        failed_jobs(driver, 3, queue="a")
        failed_jobs(driver, 2, queue="b")

        assert [driver.flush(queue="a", limit=2) for _ in range(3)] == [2, 1, 0]
        assert driver.flush() == 2
        assert (driver.count_failed(), driver.newest_failed()) == (0, 0)

    def test_retrying_takes_no_more_than_a_portion_whatever_its_limit(self, driver: StoresFailedJobs) -> None:
        push(driver, PORTION + 2)
        while reservations := pop(driver, room=roomy(500)).reservations:
            driver.settle([fail(reservation) for reservation in reservations])
        upto = driver.newest_failed()

        retried = [len(driver.retry_many(new_id, upto=upto, limit=10 * PORTION)) for _ in range(3)]

        assert retried == [PORTION, 2, 0]

    def test_flushing_what_is_old_keeps_what_is_new(self, driver: StoresFailedJobs, advance: Advance) -> None:
        old = failed_jobs(driver, 2)
        advance(self.delay)
        began = clock.monotonic()
        new = failed_jobs(driver, 2)

        # However long the new ones took, they are younger than this, and the old ones older.
        between = clock.monotonic() - began + self.delay / 2
        assert driver.flush(older_than=between) == len(old)
        assert {job.envelope.id for job in driver.failed()} == set(new)
        assert driver.flush(older_than=self.delay / 2) == 0

    def test_what_became_of_the_hook_is_noted(self, driver: StoresFailedJobs) -> None:
        first, other = failed_jobs(driver, 2)
        for hook in (Hook.RAISED, Hook.RAN):
            driver.note_hook(first, hook)
        driver.note_hook(new_id(), Hook.RAN)

        assert (_found(driver, first).hook, _found(driver, other).hook) == (Hook.RAN, Hook.PENDING)

    def test_the_id_of_a_failed_job_stays_in_use_for_as_long_as_it_is_kept(
        self, driver: StoresFailedJobs, advance: Advance
    ) -> None:
        sent = Push(envelope())
        driver.push([sent])
        driver.settle([fail(pop_one(driver))])
        advance(self.remember_ids + 0.01)

        assert not driver.push([sent])[0].stored
        driver.forget(sent.envelope.id)
        assert driver.push([sent])[0].stored
        assert driver.settle([Ack(pop_one(driver))]).stale == ()


def failed_jobs(
    driver: StoresFailedJobs, amount: int, *, queue: str = "default", name: str = "shop.send-invoice"
) -> list[str]:
    """Push so many jobs to an aside queue's end and fail each; returns their ids in order."""
    ids: list[str] = []
    for _ in range(amount):
        (id_,) = push(driver, queue=queue, name=name, front=True)
        driver.settle([fail(pop_one(driver, queue))])
        ids.append(id_)
    return ids


def _found(driver: StoresFailedJobs, job_id: str) -> FailedJob:
    failed = driver.find_failed(job_id)
    assert failed is not None
    return failed
