"""F39, F40, F41, F45: large bodies, odd names, many failed jobs, and clocks, on Redis."""

import datetime as dt
import hashlib
import os
import subprocess
import sys
import textwrap
import tracemalloc

import pytest
import time_machine

from flask_jobs.driver import PORTION
from flask_jobs.envelope import At, Envelope, ErrorRecord, Fail
from flask_jobs.errors import InvalidArgument
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push
from flask_jobs.stored import Sizes
from flask_jobs.testing.contract.support import BAD_NAMES, envelope, pop, pop_ids, pop_one, push, roomy


def sized(size):
    sent = envelope()
    return Envelope(sent.id, sent.name, sent.queue, body=os.urandom(size // 2).hex())


@pytest.mark.parametrize("size", [60_000, 70_000, 999_000])
def test_f39_a_large_body_comes_back_whole_from_every_place(driver, size):
    sent = sized(size)
    driver.push([Push(sent)])
    held = pop_one(driver)
    error = ErrorRecord("ValueError", "x" * 5_000_000, "y" * 5_000_000)

    driver.settle([Fail(held, error, held.counters)])

    failed = driver.find_failed(sent.id)
    driver.retry(sent.id, new_id())
    bodies = [held.envelope.body, failed.envelope.body, pop_one(driver).envelope.body]
    assert {hashlib.sha256(body.encode()).hexdigest() for body in bodies} == {
        hashlib.sha256(sent.body.encode()).hexdigest()
    }
    assert len(failed.error.message) < 65_000
    assert "more characters" in failed.error.message


def test_f39_a_pop_of_many_large_bodies_takes_no_more_than_fits_an_answer(driver):
    pushes = [Push(sized(900_000)) for _ in range(12)]
    driver.push(pushes)

    first = pop(driver, room=roomy(50)).reservations

    assert 1 < len(first) < 6
    assert driver.size("default") == Sizes(ready=12 - len(first), reserved=len(first))


def test_f39_a_push_of_many_large_bodies_goes_in_smaller_portions(driver):
    pushes = [Push(sized(900_000)) for _ in range(20)]

    answers = driver.push(pushes)

    assert all(answer.stored for answer in answers)
    assert pop_ids(driver, amount=20) == [item.envelope.id for item in pushes]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_f40_a_name_that_cannot_be_served_is_refused_everywhere(driver, name):
    for call in (
        lambda: driver.push([Push(envelope(queue=name))]),
        lambda: driver.pop([name], "token", roomy()),
        lambda: driver.exchange([], [name], "token", roomy()),
        lambda: driver.size(name),
        lambda: driver.pause(name),
    ):
        with pytest.raises(InvalidArgument):
            call()

    assert driver.queues() == []


def test_f40_names_that_look_alike_are_served_apart(driver):
    names = ["a-b", "A.b", "a.b", "a_b", "A", "a", "9", "." * 80]
    ids = {name: push(driver, queue=name) for name in names}

    assert {name: pop_ids(driver, name, amount=2) for name in names} == ids


def test_a_job_name_with_a_control_character_is_refused(driver):
    with pytest.raises(InvalidArgument, match="control character"):
        driver.push([Push(envelope(name="a\x1fb"))])

    assert driver.size("default") == Sizes()


def fail_many(driver, amount, *, size=200):
    body = "x" * size
    for start in range(0, amount, PORTION):
        count = min(PORTION, amount - start)
        driver.push([Push(Envelope(new_id(), "shop.mail", "failing", body)) for _ in range(count)])
        error, room = ErrorRecord("ValueError", "no"), roomy(PORTION, names=["shop.mail"])
        while held := pop(driver, "failing", room=room).reservations:
            driver.settle([Fail(item, error, item.counters) for item in held])


def retry_all(driver, amount, size):
    fail_many(driver, amount, size=size)
    upto = driver.newest_failed()
    fail_many(driver, 10)
    newer = {job.envelope.id for job in driver.failed(limit=10)}

    tracemalloc.start()
    retried = 0
    while portion := driver.retry_many(new_id, upto=upto):
        retried += len(portion)
        if retried == amount // 2 // PORTION * PORTION:
            break
    # Interrupted half way, and run again.
    while portion := driver.retry_many(new_id, upto=upto):
        retried += len(portion)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert retried == amount
    assert driver.size("failing") == Sizes(ready=amount)
    assert {job.envelope.id for job in driver.failed(limit=50)} == newer
    assert not driver.forget(new_id())
    assert peak < 150_000_000
    while driver.clear("failing"):
        pass
    assert driver.flush() == 10


def test_f41_a_retry_of_all_is_bounded_and_touches_each_entry_once(driver):
    retry_all(driver, 5_000, size=200)


@pytest.mark.volume
def test_f41_a_retry_of_200_000_failed_jobs_keeps_memory_flat(driver):
    retry_all(driver, 200_000, size=5_000)


def test_f41_flushing_by_age_works_through_what_is_younger(open_driver):
    driver = open_driver(clock="local")
    with time_machine.travel(dt.datetime(2030, 1, 1, tzinfo=dt.UTC), tick=False) as traveller:
        fail_many(driver, 1_200)
        traveller.shift(3_600)
        fail_many(driver, 20)

        flushed = [driver.flush(older_than=1_800.0) for _ in range(3)]

        assert flushed == [1_000, 200, 0]
        assert driver.count_failed() == 20


def test_f41_pages_skip_and_repeat_nothing_while_entries_come_in(driver):
    fail_many(driver, 30)
    expected = [job.envelope.id for job in driver.failed(limit=100)]

    seen, before = [], None
    while page := driver.failed(before=before, limit=7):
        seen += [job.envelope.id for job in page]
        before = page[-1].position
        fail_many(driver, 3)

    assert seen == expected


def test_f45_instants_do_not_depend_on_the_zone_of_any_process(driver, redis_url, prefix):
    program = textwrap.dedent(
        """
        import sys, datetime as dt
        from flask_jobs.drivers.redis.driver import RedisDriver
        from flask_jobs.envelope import *
        from flask_jobs.pushes import *
        from flask_jobs.ids import new_id
        url, prefix, queue = sys.argv[1:]
        driver = RedisDriver(url, prefix=prefix, connection="redis")
        third = dt.timezone(dt.timedelta(hours=9, minutes=30))
        at = dt.datetime(2040, 3, 28, 2, 30, tzinfo=third).timestamp()
        for due in (After(5.0), At(at)):
            driver.push([Push(Envelope(new_id(), "a", queue, "b"), due=due, retry_until=After(7200.0))])
        """
    )
    for zone in ("America/Phoenix", "Asia/Kolkata"):
        queue = zone.replace("/", "-")
        environment = {**os.environ, "TZ": zone}
        subprocess.run([sys.executable, "-c", program, redis_url, prefix, queue], env=environment, check=True)

        soon, later = driver.jobs(queue)
        assert soon.due - soon.pushed_at == pytest.approx(5.0, abs=0.001)
        assert later.due == dt.datetime(2040, 3, 27, 17, 0, tzinfo=dt.UTC).timestamp()
        assert soon.retry_until - soon.pushed_at == pytest.approx(7_200.0, abs=0.001)


def test_f45_a_wrong_clock_of_a_host_changes_nothing(driver):
    with time_machine.travel(dt.datetime(2001, 1, 1, tzinfo=dt.UTC)):
        ids = push(driver)
        held = pop_one(driver)
    with time_machine.travel(dt.datetime(2050, 1, 1, tzinfo=dt.UTC)):
        popped = pop(driver)

    assert held.envelope.id == ids[0]
    assert popped.reservations == ()
    assert popped.now - held.now < 60


def test_f45_an_instant_keeps_every_digit(driver):
    due, until = 4_000_000_000.123456, 5_000_000_000.654321
    driver.push([Push(envelope(), due=At(due), retry_until=At(until))])

    (job,) = driver.jobs("default")

    assert (job.due, job.retry_until) == (due, until)


def test_the_history_of_leases_that_run_out_again_and_again_stays_bounded(open_driver):
    driver = open_driver(clock="local")
    push(driver)
    with time_machine.travel(dt.datetime.now(dt.UTC), tick=False) as traveller:
        for _ in range(25):
            pop_one(driver)
            traveller.shift(61)

        history = pop_one(driver).history

    assert [entry.attempt for entry in history] == list(range(6, 26))
