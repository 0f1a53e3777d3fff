"""The connection is cut at each message between a job's end and what follows from it: nothing is lost or doubled."""

import pytest

from flask_jobs.envelope import Ack, Room
from flask_jobs.errors import ConnectionLost
from flask_jobs.ids import new_id
from flask_jobs.stored import Sizes
from flask_jobs.testing.contract.chains import chain
from flask_jobs.testing.contract.keys import digest, keyed
from flask_jobs.testing.contract.on_batches import batch, member
from flask_jobs.testing.contract.support import fail, pop_one
from tests.proxy import proxy_to

pytestmark = pytest.mark.slow

both_cuts = pytest.mark.parametrize("cut", ["cut_before", "lose_answer"])


@pytest.fixture
def proxy(engine):
    with proxy_to(engine.url.port or (5432 if engine.dialect.name == "postgresql" else 3306), is_redis=False) as proxy:
        yield proxy


@pytest.fixture
def far(engine, proxy, open_driver):
    """A driver behind the proxy."""
    return open_driver(engine.url.set(host="127.0.0.1", port=proxy.port), notify=False)


@pytest.fixture
def insistently(far, proxy):
    """Takes a step whose connection is cut at this message, and takes it again until it is answered."""

    def insist(step, cut, message):
        far.size("default")  # the connection is up, so that the messages are the step's own
        getattr(proxy, cut)(message, matching=b"")
        for _ in range(3):
            try:
                return step()
            except ConnectionLost:
                continue
            finally:
                proxy.heal()
        raise AssertionError("lost again and again")

    return insist


def each_message(proxy, *, of=40):
    """The numbers of a step's messages, as long as there was one to cut at."""
    for message in range(of):
        yield message
        if proxy.cuts_made == message:
            return
    raise AssertionError("the step has no end")


def left(driver):
    """The names of what waits, in order, each of which is run here."""
    names = []
    while reservations := driver.pop(["default", "callbacks"], new_id(), Room()).reservations:
        names.append(reservations[0].envelope.name)
        driver.settle([Ack(reservations[0], skipped=True)])
    return names


@both_cuts
def test_f44_a_link_follows_once_upon_a_success_that_is_cut(driver, far, proxy, insistently, cut):
    for message in each_message(proxy):
        plan = chain(3)
        driver.push_chain(plan)
        done = Ack(pop_one(driver))

        stale = insistently(lambda done=done: far.settle([done]).stale, cut, message)

        stored = driver.chain(plan.id)
        assert stale == ()
        assert (stored.link, stored.job_id) == (2, plan.links[1].envelope.id)
        assert stored.waiting == (plan.links[2].envelope,)
        assert driver.size("default") == Sizes(ready=1)
        assert len(left(driver)) == 2
        assert driver.chain(plan.id) is None
    assert proxy.cuts_made > 3


@both_cuts
def test_f44_an_exchange_that_is_cut_is_settled_once_and_what_it_popped_is_recovered(
    driver, far, proxy, insistently, cut
):
    for message in each_message(proxy):
        plan = chain(2)
        driver.push_chain(plan)
        done, tokens = Ack(pop_one(driver)), []

        def exchange(done=done, tokens=tokens):
            tokens.append(new_id())
            return far.exchange([done], ["default"], tokens[-1], Room())

        answer = insistently(exchange, cut, message)
        for token in tokens:
            driver.recover(token)

        assert answer.stale == ()
        assert driver.size("default") == Sizes(ready=1)
        again = pop_one(driver)
        assert (again.envelope, again.attempt) == (plan.links[1].envelope, 1)
        driver.settle([Ack(again)])
    assert proxy.cuts_made > 3


@both_cuts
def test_f44_a_catch_follows_once_upon_a_failure_that_is_cut(driver, far, proxy, insistently, cut):
    for message in each_message(proxy):
        plan = chain(2)
        driver.push_chain(plan)
        failed = fail(pop_one(driver))

        stale = insistently(lambda failed=failed: far.settle([failed]).stale, cut, message)

        stored = driver.chain(plan.id)
        assert stale == ()
        assert (stored.link, stored.catch) == (1, None)
        assert left(driver) == ["shop.apologise"]
        assert driver.forget(plan.links[0].envelope.id)
        assert driver.chain(plan.id) is None
    assert proxy.cuts_made > 3


@both_cuts
def test_f44_a_chain_whose_push_is_cut_is_stored_once_and_whole(driver, far, proxy, insistently, cut):
    for message in each_message(proxy):
        plan = chain(3)

        insistently(lambda plan=plan: far.push_chain(plan), cut, message)

        assert driver.chain(plan.id).waiting == tuple(link.envelope for link in plan.links[1:])
        assert driver.size("default") == Sizes(ready=1)
        driver.clear("default")
        assert driver.chain(plan.id) is None
    assert proxy.cuts_made > 3


@both_cuts
def test_f44_a_retry_that_is_cut_brings_the_rest_of_its_chain_along_once(driver, far, proxy, insistently, cut):
    for message in each_message(proxy):
        plan = chain(2, catch=False)
        driver.push_chain(plan)
        driver.settle([fail(pop_one(driver))])
        old, new = plan.links[0].envelope.id, new_id()

        insistently(lambda old=old, new=new: far.retry(old, new), cut, message)

        assert driver.chain(plan.id).job_id == new
        assert driver.count_failed() == 0
        assert len(left(driver)) == 2
        assert driver.chain(plan.id) is None
    assert proxy.cuts_made > 3


@both_cuts
def test_f42_the_last_member_whose_end_is_cut_is_counted_once_and_finishes_its_batch(
    driver, far, proxy, insistently, cut
):
    for message in each_message(proxy):
        plan = batch(2)
        driver.push_batch(plan)
        driver.settle([Ack(pop_one(driver))])
        done = Ack(pop_one(driver))

        stale = insistently(lambda done=done: far.settle([done]).stale, cut, message)

        stored = driver.batch(plan.id)
        assert stale == ()
        assert (stored.total, stored.pending, stored.done, stored.callbacks) == (2, 0, 2, 2)
        assert left(driver) == ["shop.then", "shop.finally"]
        assert driver.batch(plan.id).callbacks == 0
    assert proxy.cuts_made > 3


@both_cuts
def test_f42_a_batch_whose_push_is_cut_is_stored_once_and_whole(driver, far, proxy, insistently, cut):
    for message in each_message(proxy):
        plan = batch(3)

        insistently(lambda plan=plan: far.push_batch(plan), cut, message)

        stored = driver.batch(plan.id)
        assert (stored.total, stored.pending, stored.is_whole) == (3, 3, True)
        assert left(driver)[3:] == ["shop.then", "shop.finally"]
    assert proxy.cuts_made > 3


@both_cuts
def test_f42_members_whose_adding_is_cut_are_counted_once(driver, far, proxy, insistently, cut):
    for message in each_message(proxy):
        plan = batch(1)
        driver.push_batch(plan)
        more = [member(plan.id), member(plan.id)]

        insistently(lambda plan=plan, more=more: far.add_to_batch(plan.id, more), cut, message)

        assert (driver.batch(plan.id).total, driver.size("default")) == (3, Sizes(ready=3))
        assert left(driver)[3:] == ["shop.then", "shop.finally"]
    assert proxy.cuts_made > 3


@both_cuts
def test_f42_a_member_whose_cancelling_is_cut_is_counted_once(driver, far, proxy, insistently, cut):
    for message in each_message(proxy):
        plan = batch(2)
        driver.push_batch(plan)

        insistently(lambda plan=plan: far.cancel(plan.members[0].envelope.id), cut, message)

        stored = driver.batch(plan.id)
        assert (stored.pending, stored.skipped) == (1, 1)
        assert len(left(driver)) == 3
    assert proxy.cuts_made > 3


@both_cuts
def test_f12_a_unique_job_whose_push_is_cut_holds_its_key_and_is_no_duplicate_of_itself(
    driver, far, proxy, insistently, cut
):
    for message in each_message(proxy):
        push = keyed()

        (answer,) = insistently(lambda push=push: far.push([push]), cut, message)

        assert answer.holder is None
        assert driver.holder(digest(push)) == push.envelope.id
        assert driver.size("default") == Sizes(ready=1)
        driver.clear("default")
        assert driver.holder(digest(push)) is None
    assert proxy.cuts_made > 0
