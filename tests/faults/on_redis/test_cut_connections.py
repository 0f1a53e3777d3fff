"""The connection is cut at every command: a job is always in exactly one place, and nothing happens twice."""

import pytest

from flask_jobs.envelope import Ack, After
from flask_jobs.errors import ConnectionLost, Stored
from flask_jobs.ids import new_id
from flask_jobs.pushes import Push
from flask_jobs.stored import Sizes
from flask_jobs.testing.contract.support import envelope, fail, id_list, pop, pop_one, push, release, roomy

from ...proxy import proxy_to


def places(driver, job_ids):
    """How many places hold one of these jobs."""
    waiting = [driver.find(job_id) for job_id in job_ids]
    failed = [driver.find_failed(job_id) for job_id in job_ids]
    return sum(place is not None for place in [*waiting, *failed])


def counted(sizes):
    return sizes.ready + sizes.delayed + sizes.reserved


@pytest.fixture
def cut_driver(open_driver, proxy):
    return open_driver(proxy.url)


both_cuts = pytest.mark.parametrize("cut", ["cut_before", "lose_answer"])


@both_cuts
def test_f06_a_cut_push_says_whether_it_can_have_been_stored_and_may_be_repeated(driver, cut_driver, proxy, cut):
    pushes = [Push(envelope()) for _ in range(3)]
    getattr(proxy, cut)(0)

    with pytest.raises(ConnectionLost) as lost:
        cut_driver.push(pushes)
    stored_first = driver.size("default").ready
    repeated = cut_driver.push(pushes)

    assert lost.value.stored is Stored.UNKNOWN
    assert stored_first == (0 if cut == "cut_before" else 3)
    assert [answer.stored for answer in repeated] == [cut == "cut_before"] * 3
    assert driver.size("default") == Sizes(ready=3)


def test_f06_a_push_that_is_cut_in_its_third_portion_says_how_many_were_stored(driver, cut_driver, proxy):
    pushes = [Push(envelope()) for _ in range(2_500)]
    cut_driver.push(pushes[:1])
    proxy.cut_before(2)

    with pytest.raises(ConnectionLost) as lost:
        cut_driver.push(pushes)
    cut_driver.push(pushes)

    assert lost.value.__notes__ == ["2000 of 2500 jobs were stored before."]
    assert driver.size("default") == Sizes(ready=2_500)


@both_cuts
def test_f04_what_a_lost_pop_reserved_is_recovered_by_its_token(driver, cut_driver, proxy, cut):
    ids = push(driver, 5)
    token = new_id()
    getattr(proxy, cut)(0)

    with pytest.raises(ConnectionLost):
        pop(cut_driver, room=roomy(3), token=token)
    held = driver.size("default").reserved
    recovered = cut_driver.recover(token)

    again = pop(driver, room=roomy()).reservations
    assert held == recovered == (0 if cut == "cut_before" else 3)
    assert id_list(again) == ids
    assert {reservation.attempt for reservation in again} == {1}


@both_cuts
@pytest.mark.parametrize("kind", ["ack", "release", "fail"])
def test_f06_a_cut_settlement_is_whole_or_not_at_all_and_may_be_repeated(driver, cut_driver, proxy, cut, kind):
    (job_id,) = push(driver)
    reservation = pop_one(cut_driver)
    settlement = {
        "ack": Ack(reservation),
        "release": release(reservation, After(60.0)),
        "fail": fail(reservation),
    }[kind]
    getattr(proxy, cut)(0)

    with pytest.raises(ConnectionLost):
        cut_driver.settle([settlement])
    between = places(driver, [job_id])
    stale = cut_driver.settle([settlement]).stale

    is_gone = kind == "ack"
    assert between == (0 if is_gone and cut == "lose_answer" else 1)
    assert stale == ()
    assert places(driver, [job_id]) == (0 if is_gone else 1)


@both_cuts
def test_f03_a_cut_exchange_can_be_settled_again_and_its_pop_recovered(driver, cut_driver, proxy, cut):
    ids = push(driver, 3)
    done = pop_one(cut_driver)
    token = new_id()
    getattr(proxy, cut)(0)

    with pytest.raises(ConnectionLost):
        cut_driver.exchange([Ack(done)], ["default"], token, roomy(1))
    stale = cut_driver.settle([Ack(done)]).stale
    cut_driver.recover(token)

    assert stale == ()
    assert id_list(pop(driver, room=roomy()).reservations) == ids[1:]
    assert counted(driver.size("default")) == 2


@both_cuts
def test_f06_a_cut_retry_leaves_the_job_in_one_place(driver, cut_driver, proxy, cut):
    (old,) = push(driver)
    driver.settle([fail(pop_one(driver))])
    new = new_id()
    getattr(proxy, cut)(0)

    with pytest.raises(ConnectionLost):
        cut_driver.retry(old, new)
    between = places(driver, [old, new])
    retried = cut_driver.retry(old, new)

    assert between == 1
    assert retried == (cut == "cut_before")
    assert places(driver, [old, new]) == 1
    assert pop_one(driver).envelope.retried_from == old


@both_cuts
@pytest.mark.parametrize("number", range(4))
def test_f06_a_retry_of_all_that_is_cut_anywhere_retries_each_job_once(driver, cut_driver, proxy, cut, number):
    old = push(driver, 6)
    for reservation in pop(driver, room=roomy()).reservations:
        driver.settle([fail(reservation)])
    upto = driver.newest_failed()
    getattr(proxy, cut)(number)

    retried_all = False
    while not retried_all:
        try:
            while cut_driver.retry_many(new_id, upto=upto, limit=2):
                pass
            retried_all = True
        except ConnectionLost:
            continue

    repeats = [reservation.envelope.retried_from for reservation in pop(driver, room=roomy()).reservations]
    assert proxy.cuts_made == 1
    assert repeats == old
    assert driver.count_failed() == 0


@both_cuts
def test_f06_a_cut_recovery_can_be_repeated(driver, cut_driver, proxy, cut):
    ids = push(driver, 4)
    token = new_id()
    pop(driver, room=roomy(), token=token)
    getattr(proxy, cut)(0)

    with pytest.raises(ConnectionLost):
        cut_driver.recover(token)
    cut_driver.recover(token)

    assert driver.size("default") == Sizes(ready=4)
    assert id_list(pop(driver, room=roomy()).reservations) == ids


def test_a_cut_while_a_script_is_sent_anew_leaves_nothing_half_done(own_server, open_driver):
    with proxy_to(own_server.port) as proxy:
        driver = open_driver(proxy.url)
        sent = Push(envelope())
        driver.push([sent])
        own_server.client().script_flush()
        # The first call is answered with "unknown script", the second carries the text.
        proxy.lose_answer(1)

        with pytest.raises(ConnectionLost) as lost:
            driver.push([Push(envelope())])

        assert lost.value.stored is Stored.UNKNOWN
        assert driver.size("default") == Sizes(ready=2)
        driver.close()


def test_a_wait_whose_connection_is_cut_raises_and_the_next_one_wakes_up(driver, cut_driver, proxy):
    proxy.cut_before(0, matching=b"BLPOP")
    with pytest.raises(ConnectionLost):
        cut_driver.wait(["default"], timeout=10.0, stopping=lambda: False)
    push(driver)

    cut_driver.wait(["default"], timeout=60.0, stopping=lambda: False)

    assert pop_one(cut_driver)
