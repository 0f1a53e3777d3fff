"""The connection is cut at each message in turn, before or after it is carried out: repeating sets it right."""

import pytest

from flask_jobs.envelope import Ack, After, Counters, Entry, ErrorRecord, Event, Fail, Release, Room
from flask_jobs.errors import ConnectionLost, Stored
from flask_jobs.ids import new_id
from flask_jobs.stored import Sizes
from tests.faults.support import job
from tests.proxy import proxy_to

MESSAGES = range(7)
ROOM = Room(5, 1.0, {"shop.send-invoice": 0.001})


@pytest.fixture
def proxy(engine):
    with proxy_to(engine.url.port or (5432 if engine.dialect.name == "postgresql" else 3306), is_redis=False) as proxy:
        yield proxy


@pytest.fixture
def far(engine, proxy, open_driver):
    """A driver behind the proxy, with a connection that is up."""
    far = open_driver(engine.url.set(host="127.0.0.1", port=proxy.port), notify=False)
    far.size("default")
    return far


def cut(proxy, message, carried_out):
    (proxy.lose_answer if carried_out else proxy.cut_before)(message, matching=b"")


def insistently(step):
    """The step's answer; a second time, if its connection was cut."""
    lost = []
    for _ in range(3):
        try:
            return step(), lost
        except ConnectionLost as error:
            lost.append(error)
    raise AssertionError("lost again and again")


@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize("amount", [1, 3])
def test_a_push_that_is_repeated_is_stored_once(far, driver, proxy, carried_out, amount):
    for message in MESSAGES:
        pushes = [job() for _ in range(amount)]
        cut(proxy, message, carried_out)

        _, lost = insistently(lambda pushes=pushes: far.push(pushes))

        proxy.heal()
        stored = [driver.find(push.envelope.id) is not None for push in pushes]
        assert stored == [True] * amount
        assert driver.size("default") == Sizes(ready=amount)
        assert all(error.stored in (Stored.NO, Stored.UNKNOWN) for error in lost)
        driver.clear("default")
    assert proxy.cuts_made > 0


def test_a_push_whose_answer_is_lost_is_of_unknown_fate(far, driver, proxy):
    far.push([job()])  # the first push forgets old notes in its transaction, too
    push = job()
    word = b"EXECUTE" if driver.engine.dialect.name == "postgresql" else b"COMMIT"
    proxy.lose_answer(0, matching=word)

    with pytest.raises(ConnectionLost) as caught:
        far.push([push])

    assert caught.value.stored is Stored.UNKNOWN
    assert driver.find(push.envelope.id) is not None
    assert [pushed.stored for pushed in far.push([push])] == [False]


@pytest.mark.parametrize("carried_out", [False, True])
def test_f03_what_a_pop_with_a_lost_answer_holds_is_recovered_uncharged(far, driver, proxy, carried_out):
    ids = [pushed.id for pushed in driver.push([job() for _ in range(3)])]
    for message in MESSAGES:
        far.pop(["other"], new_id(), ROOM)
        token = new_id()
        cut(proxy, message, carried_out)
        try:
            far.exchange([], ["default"], token, ROOM)
        except ConnectionLost:
            proxy.heal()
        proxy.heal()

        insistently(lambda token=token: far.recover(token))

        assert driver.size("default") == Sizes(ready=3)
        popped = driver.pop(["default"], token, ROOM).reservations
        assert [(one.envelope.id, one.attempt) for one in popped] == [(id_, 1) for id_ in ids]
        driver.recover(token)
    assert proxy.cuts_made > 0


def ack(reservation):
    return Ack(reservation)


def release(reservation):
    entry = Entry(Event.RELEASED, reservation.now, 1, "busy")
    return Release(reservation, After(0.0), Counters(1, 0, 1), entry)


def fail(reservation):
    return Fail(reservation, ErrorRecord("ValueError", "no"), reservation.counters)


@pytest.mark.parametrize("carried_out", [False, True])
@pytest.mark.parametrize(("settlement", "left"), [(ack, (0, 0)), (release, (1, 0)), (fail, (0, 1))])
def test_f06_a_settlement_that_is_repeated_is_applied_once(far, driver, proxy, settlement, left, carried_out):
    for message in MESSAGES:
        driver.push([job()])
        (reservation,) = driver.pop(["default"], new_id(), Room()).reservations
        far.size("default")
        cut(proxy, message, carried_out)

        stale, _ = insistently(lambda reservation=reservation: far.settle([settlement(reservation)]).stale)

        proxy.heal()
        assert stale == ()
        assert (driver.size("default").ready, driver.count_failed()) == left
        assert driver.size("default").reserved == 0
        driver.clear("default")
        driver.flush()
    assert proxy.cuts_made > 0


@pytest.mark.parametrize("carried_out", [False, True])
def test_f06_a_retry_that_is_cut_leaves_the_job_in_one_place(far, driver, proxy, carried_out):
    for message in MESSAGES:
        driver.push([job()])
        (reservation,) = driver.pop(["default"], new_id(), Room()).reservations
        driver.settle([fail(reservation)])
        far.size("default")
        cut(proxy, message, carried_out)

        insistently(lambda reservation=reservation: far.retry(reservation.envelope.id, new_id()))

        proxy.heal()
        assert (driver.size("default"), driver.count_failed()) == (Sizes(ready=1), 0)
        driver.clear("default")
    assert proxy.cuts_made > 0
