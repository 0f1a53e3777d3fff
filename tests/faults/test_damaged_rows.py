"""What somebody has written over in the store costs that job its place, and no other job anything."""

import sqlite3

import pytest

from flask_jobs.envelope import Ack, Room
from flask_jobs.ids import new_id
from flask_jobs.testing.contract.chains import chain
from flask_jobs.testing.contract.keys import digest, keyed
from flask_jobs.testing.contract.on_batches import batch
from flask_jobs.testing.contract.support import fail, pop_one, roomy

from .app import Brief
from .support import job, open_driver


@pytest.fixture
def file(tmp_path):
    return tmp_path / "jobs.db"


@pytest.fixture
def driver(file):
    driver = open_driver(file)
    yield driver
    driver.close()


DAMAGES = [
    "history = '{bad'",
    'history = \'[["nope", 1, 1, "", null]]\'',
    "attempts = 'abc'",
    "errors = 'abc', pushed_at = 'abc', retry_until = 'abc'",
    "at = 'abc'",
    "progress = '{'",
    "body = CAST(x'ff00fe' AS TEXT)",
    "name = CAST(x'ff00fe' AS TEXT)",
    "name = x'ff00fe'",
    "name = 7",
    "body = x'ff00fe'",
    "state = 2, at = 1, token = 'gone', history = '{bad', attempts = 'abc'",
    "ties = '{bad'",
    "ties = '[]'",
    "ties = x'ff00fe'",
    """ties = '{"chain": 7}'""",
    """ties = '{"key": ["only"]}'""",
    """ties = '{"chain": "gone", "link": 1, "batch": "gone"}'""",
    "unique_key = 'of nobody', key_until = 'abc'",
]


def drained(driver):
    """The ids of all jobs, each popped alone and done."""
    ids = []
    while reservations := driver.pop(["default"], new_id(), Room(limit=1)).reservations:
        ids.append(reservations[0].envelope.id)
        driver.settle([Ack(reservations[0])])
    return ids


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_row_does_not_keep_the_others_from_being_popped_and_listed(file, driver, damage):
    pushes = [job(), job()]
    driver.push(pushes)
    with sqlite3.connect(file) as raw:
        raw.execute(f"UPDATE flask_jobs SET {damage} WHERE id = ?", [pushes[0].envelope.id])
    raw.close()

    listed = [stored.envelope.id for stored in driver.jobs("default")]
    ran = drained(driver)

    ids = {push.envelope.id for push in pushes}
    assert set(listed) == set(ran) == ids
    assert len(ran) == 2


@pytest.mark.parametrize("damage", [damage for damage in DAMAGES if "token" not in damage])
def test_a_damaged_row_does_not_keep_the_others_from_being_told_as_held(file, driver, damage):
    pushes, token = [job(), job()], new_id()
    driver.push(pushes)
    popped = driver.pop(["default"], token, roomy()).reservations
    with sqlite3.connect(file) as raw:
        raw.execute(f"UPDATE flask_jobs SET {damage} WHERE id = ?", [pushes[0].envelope.id])
    raw.close()

    held = driver.held(token)

    assert {reservation.receipt for reservation in held} == {reservation.receipt for reservation in popped}
    assert driver.settle([Ack(reservation) for reservation in held]).stale == ()


def test_an_instant_that_is_no_number_is_waited_for_by_nobody(file, driver):
    driver.push([job()])
    with sqlite3.connect(file) as raw:
        raw.execute("UPDATE flask_jobs SET state = 1, at = 'abc'")
    raw.close()

    popped = driver.pop(["default"], new_id(), Room())

    assert (popped.reservations, popped.next_due) == ((), None)


@pytest.mark.parametrize("name", ["CAST(x'ff' AS TEXT)", "x'ff'", "'two words'", "7.5", "''"])
def test_a_queue_that_can_have_no_such_name_hides_no_other(file, driver, name):
    driver.push([job("alpha"), job("omega"), job("damaged")])
    with sqlite3.connect(file) as raw:
        raw.execute(f"UPDATE flask_jobs SET queue = {name} WHERE queue = 'damaged'")
    raw.close()

    assert [queue for queue in driver.queues() if queue != "7.5"] == ["alpha", "omega"]


def damage(file, statement, *parameters):
    with sqlite3.connect(file) as raw:
        raw.execute(statement, parameters)
    raw.close()


@pytest.mark.parametrize("ties", ["'{bad'", "x'ff00fe'", "'[]'"])
def test_a_job_whose_ties_cannot_be_read_runs_alone_and_says_so(file, driver, caplog, ties):
    push = keyed()
    driver.push([push])
    damage(file, f"UPDATE flask_jobs SET ties = {ties}")

    reservation = pop_one(driver)
    settled = driver.settle([Ack(reservation)])

    assert reservation.envelope.ties is None
    assert push.envelope.id in caplog.text
    assert settled.stale == settled.followed == ()
    assert driver.holder(digest(push)) is None


@pytest.mark.parametrize("ties", ["'{bad'", "x'ff00fe'", "'[]'"])
def test_a_failed_job_whose_ties_cannot_be_read_is_shown_retried_and_forgotten(file, driver, ties):
    for _ in range(3):
        driver.push([keyed()])
        driver.settle([fail(pop_one(driver))])
    damage(file, f"UPDATE flask_jobs_failed SET ties = {ties}")
    shown = driver.failed()

    assert [job.envelope.ties for job in shown] == [None] * 3
    assert driver.retry(shown[0].envelope.id, new_id())
    assert driver.forget(shown[1].envelope.id)
    assert driver.flush() == 1


@pytest.mark.parametrize("push", ["'{bad'", "'{}'", "x'ff00fe'", "'[]'"])
def test_a_link_that_cannot_be_read_ends_its_chain_and_not_the_worker(file, driver, caplog, push):
    plan = chain(3)
    driver.push_chain(plan)
    damage(file, f"UPDATE flask_jobs_planned SET push = {push}")

    settled = driver.settle([Ack(pop_one(driver))])

    assert settled.stale == settled.followed == ()
    assert driver.chain(plan.id) is None
    assert plan.id in caplog.text


def test_a_callback_that_cannot_be_read_keeps_no_other_from_running(file, driver, caplog):
    plan = batch(1)
    driver.push_batch(plan)
    damage(file, "UPDATE flask_jobs_planned SET push = 'bad' WHERE role = 'then'")

    settled = driver.settle([Ack(pop_one(driver))])

    assert [one.envelope.name for one in settled.followed] == ["shop.finally"]
    assert driver.batch(plan.id).finished_at is not None
    assert plan.id in caplog.text


@pytest.mark.parametrize("name", ["x'ff00fe'", "7"])
def test_a_job_whose_name_is_no_text_is_kept_among_the_failed(site, name):
    damaged, _ = site.dispatch(Brief("damaged"), Brief("whole"))
    with sqlite3.connect(site.folder / "app.sqlite") as raw:
        raw.execute(f"UPDATE flask_jobs SET name = {name} WHERE id = ?", [damaged])
    raw.close()

    assert site.supervise("--stop-when-empty").ended() == 0

    assert [line["label"] for line in site.ledger("end")] == ["whole"]
    assert [failed.envelope.id for failed in site.failed()] == [damaged]
