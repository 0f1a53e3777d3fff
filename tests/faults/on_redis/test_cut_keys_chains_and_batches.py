"""The connection is cut at every command: no link is lost or doubled, no member miscounted, no key left behind."""

import datetime as dt
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import time_machine

from flask_jobs.envelope import Ack, After
from flask_jobs.errors import ConnectionLost, Stored
from flask_jobs.ids import new_id
from flask_jobs.pushes import Pushed
from flask_jobs.stored import Sizes
from flask_jobs.testing.contract.chains import chain
from flask_jobs.testing.contract.keys import digest, keyed
from flask_jobs.testing.contract.on_batches import CALLBACKS, batch, member
from flask_jobs.testing.contract.support import fail, pop, pop_one, release, roomy, until

NAMES = ["shop.send-invoice", *CALLBACKS.values()]

both_cuts = pytest.mark.parametrize("cut", ["cut_before", "lose_answer"])


@pytest.fixture
def cut_driver(open_driver, proxy):
    return open_driver(proxy.url)


class Worker:
    """Runs jobs one by one as a worker does: repeats a settlement that was cut, recovers what a cut pop may hold."""

    def __init__(self, driver, settle=Ack):
        self.driver = driver
        self.settle = settle
        self.ran = []
        self.followed = []

    def drain(self, *queues):
        done = ()
        while True:
            popped = self.exchange(done, queues)
            if not popped.reservations:
                return
            self.ran += [held.envelope for held in popped.reservations]
            done = [self.settle(held) for held in popped.reservations]

    def exchange(self, done, queues):
        while True:
            token = new_id()
            try:
                exchange = self.driver.exchange(done, queues, token, roomy(1))
            except ConnectionLost:
                assert self.insist(self.driver.settle, done).stale == ()
                self.insist(self.driver.recover, token)
                done = ()
            else:
                assert exchange.stale == ()
                self.followed += exchange.settled.followed
                return exchange.popped

    def insist(self, step, *arguments):
        while True:
            try:
                return step(*arguments)
            except ConnectionLost:
                continue


@both_cuts
@pytest.mark.parametrize("number", range(6))
def test_f44_a_chain_that_is_cut_anywhere_runs_each_link_once_and_in_order(driver, cut_driver, proxy, cut, number):
    plan = chain(4)
    driver.push_chain(plan)
    getattr(proxy, cut)(number)
    worker = Worker(cut_driver)

    worker.drain("default")

    assert worker.ran == [link.envelope for link in plan.links]
    assert driver.chain(plan.id) is None
    assert driver.size("default") == Sizes()
    assert proxy.cuts_made == (1 if number < 5 else 0)


@both_cuts
@pytest.mark.parametrize("number", range(4))
def test_f44_a_cut_failure_runs_the_catch_once_and_its_retry_goes_on(driver, cut_driver, proxy, cut, number):
    plan = chain(3)
    driver.push_chain(plan)
    driver.settle([Ack(pop_one(driver))])
    held = pop_one(driver)
    getattr(proxy, cut)(number)
    worker = Worker(cut_driver)

    worker.insist(cut_driver.settle, [fail(held)])
    caught = pop_one(driver)
    worker.insist(cut_driver.settle, [Ack(caught)])
    worker.insist(cut_driver.retry, held.envelope.id, again := new_id())
    worker.drain("default")

    assert plan.catch is not None
    assert caught.envelope == plan.catch.envelope
    assert [job.id for job in worker.ran] == [again, plan.links[2].envelope.id]
    assert driver.chain(plan.id) is None
    assert driver.count_failed() == 0


@both_cuts
def test_f44_a_cut_push_of_a_chain_is_whole_or_not_at_all_and_may_be_repeated(driver, cut_driver, proxy, cut):
    plan = chain(3)
    getattr(proxy, cut)(0)

    with pytest.raises(ConnectionLost) as lost:
        cut_driver.push_chain(plan)
    between = driver.chain(plan.id)
    answer = cut_driver.push_chain(plan)

    assert lost.value.stored is Stored.UNKNOWN
    assert (between is None) == (cut == "cut_before")
    assert answer == Pushed(plan.links[0].envelope.id, stored=cut == "cut_before")
    assert driver.size("default") == Sizes(ready=1)
    assert len(driver.chain(plan.id).waiting) == 2


@both_cuts
def test_f12_a_cut_push_leaves_no_key_without_its_job_and_is_no_duplicate_of_itself(driver, cut_driver, proxy, cut):
    unique = keyed()
    getattr(proxy, cut)(0)

    with pytest.raises(ConnectionLost):
        cut_driver.push([unique])
    holder, stored = driver.holder(digest(unique)), driver.find(unique.envelope.id)
    (answer,) = cut_driver.push([unique])

    assert (holder is None) == (stored is None) == (cut == "cut_before")
    assert answer == Pushed(unique.envelope.id, stored=cut == "cut_before")
    assert driver.size("default") == Sizes(ready=1)


@both_cuts
@pytest.mark.parametrize("end", [Ack, fail])
def test_f12_a_cut_end_gives_the_key_back_with_the_job(driver, cut_driver, proxy, cut, end):
    unique = keyed()
    driver.push([unique])
    held = pop_one(driver)
    getattr(proxy, cut)(0)

    with pytest.raises(ConnectionLost):
        cut_driver.settle([end(held)])
    holder, stored = driver.holder(digest(unique)), driver.find(unique.envelope.id)
    driver.push([following := keyed()] if holder is None else [])
    settled = cut_driver.settle([end(held)])

    assert (holder is None) == (stored is None) == (cut == "lose_answer")
    assert settled.stale == ()
    assert driver.holder(digest(unique)) == (None if holder else following.envelope.id)


@both_cuts
def test_f12_a_cut_retry_takes_the_key_once(driver, cut_driver, proxy, cut):
    unique = keyed()
    driver.push([unique])
    driver.settle([fail(pop_one(driver))])
    getattr(proxy, cut)(0)
    new = new_id()

    with pytest.raises(ConnectionLost):
        cut_driver.retry(unique.envelope.id, new)
    between = driver.holder(digest(unique))
    cut_driver.retry(unique.envelope.id, new)

    assert between == (None if cut == "cut_before" else new)
    assert driver.holder(digest(unique)) == new
    assert driver.size("default") == Sizes(ready=1)


def test_f12_a_killed_workers_job_keeps_its_key_until_it_has_failed(open_driver):
    driver = open_driver(retry_after=0.05)
    unique = keyed()
    driver.push([unique])
    pop(driver)
    refused = []

    def charged():
        refused.extend(driver.push([keyed()]))
        popped = pop(driver).reservations
        return popped[0] if popped else None

    held = []
    until(lambda: bool(held.append(charged()) or held[-1]))
    driver.settle([fail(held[-1])])

    assert {answer.holder for answer in refused} == {unique.envelope.id}
    assert held[-1].attempt == 2
    assert driver.push([again := keyed()]) == [Pushed(again.envelope.id)]


@both_cuts
@pytest.mark.parametrize("number", range(6))
def test_f43_a_batch_that_is_cut_anywhere_counts_each_member_and_calls_back_once(
    driver, cut_driver, proxy, cut, number
):
    plan = batch(4)
    driver.push_batch(plan)
    getattr(proxy, cut)(number)
    worker = Worker(cut_driver)

    worker.drain("default")

    called = Worker(driver)
    called.drain("callbacks")
    stored = driver.batch(plan.id)
    assert [job.id for job in worker.ran] == [push.envelope.id for push in plan.members]
    assert (stored.total, stored.done, stored.pending) == (4, 4, 0)
    assert [job.name for job in called.ran] == ["shop.then", "shop.finally"]


@both_cuts
@pytest.mark.parametrize("number", range(3))
def test_f43_a_batch_whose_push_was_cut_calls_nobody_back_before_its_repetition(driver, cut_driver, proxy, cut, number):
    plan = batch(2_050)
    reached = number if cut == "cut_before" else number + 1
    getattr(proxy, cut)(number)

    with pytest.raises(ConnectionLost) as lost:
        cut_driver.push_batch(plan)
    between = driver.batch(plan.id)
    worker = Worker(driver, settle=Ack)
    _run_all(driver, "default")
    called_too_early = driver.size("callbacks").ready if reached < 3 else 0
    answers = cut_driver.push_batch(plan)
    again = cut_driver.push_batch(plan)
    _run_all(driver, "default")

    worker.drain("callbacks")
    stored = driver.batch(plan.id)
    assert getattr(lost.value, "__notes__", []) == (
        [f"{number * 1_000} of 2050 jobs were stored before."] if number else []
    )
    assert (between is None) == (reached == 0)
    assert between is None or (between.is_whole, between.total) == (reached == 3, min(2_050, reached * 1_000))
    assert called_too_early == 0
    assert sum(answer.stored for answer in answers) == 2_050 - min(2_050, reached * 1_000)
    assert not any(answer.stored for answer in again)
    assert (stored.total, stored.done, stored.is_whole) == (2_050, 2_050, True)
    assert [job.name for job in worker.ran] == ["shop.then", "shop.finally"]


def test_f43_a_batch_whose_push_was_cut_for_good_finishes_when_it_is_cancelled(driver, cut_driver, proxy):
    plan = batch(1_500)
    proxy.cut_before(1)
    with pytest.raises(ConnectionLost):
        cut_driver.push_batch(plan)
    _run_all(driver, "default")

    cancelled = driver.cancel_batch(plan.id)
    repeated = driver.push_batch(plan)
    worker = Worker(driver)
    worker.drain("callbacks")

    stored = driver.batch(plan.id)
    assert cancelled
    assert not any(answer.stored for answer in repeated)
    assert (stored.total, stored.done, stored.is_whole) == (1_000, 1_000, True)
    assert [job.name for job in worker.ran] == ["shop.finally"]
    assert driver.prune_batches(older_than=0.0) == 1


@both_cuts
def test_f43_members_added_in_portions_hold_the_batch_open_until_the_last_one(driver, cut_driver, proxy, cut):
    plan = batch(1)
    driver.push_batch(plan)
    more = [member(plan.id) for _ in range(1_500)]
    getattr(proxy, cut)(0 if cut == "lose_answer" else 1)

    with pytest.raises(ConnectionLost):
        cut_driver.add_to_batch(plan.id, more)
    _run_all(driver, "default")
    between = driver.batch(plan.id)
    answers = cut_driver.add_to_batch(plan.id, more)
    _run_all(driver, "default")

    stored = driver.batch(plan.id)
    assert (between.total, between.done, between.is_whole, between.finished_at) == (1_001, 1_001, False, None)
    assert sum(answer.stored for answer in answers) == 500
    assert (stored.total, stored.done, stored.is_whole) == (1_501, 1_501, True)
    assert stored.finished_at is not None
    assert driver.size("callbacks") == Sizes(ready=2)


@pytest.mark.parametrize("end", [Ack, fail])
def test_f43_a_member_that_is_cut_short_while_it_adds_others_holds_its_batch_open_no_longer_than_it_lives(
    driver, cut_driver, proxy, end
):
    plan = batch(1, allow_failures=True)
    driver.push_batch(plan)
    adding = pop_one(driver)
    proxy.cut_before(1)

    with pytest.raises(ConnectionLost):
        cut_driver.add_to_batch(plan.id, [member(plan.id) for _ in range(1_500)], by=adding.envelope.id)
    _run_all(driver, "default")
    between = driver.batch(plan.id)
    driver.settle([end(adding)])

    stored = driver.batch(plan.id)
    assert (between.total, between.done, between.is_whole, between.finished_at) == (1_001, 1_000, False, None)
    assert (stored.total, stored.pending, stored.is_whole) == (1_001, 0, True)
    assert stored.finished_at is not None
    assert driver.size("callbacks") == Sizes(ready=2)


def test_f43_a_job_that_adds_again_after_it_was_cut_short_closes_what_it_had_opened(driver, cut_driver, proxy):
    plan = batch(1)
    driver.push_batch(plan)
    proxy.cut_before(1)
    with pytest.raises(ConnectionLost):
        cut_driver.add_to_batch(plan.id, [member(plan.id) for _ in range(1_500)], by="a job of no batch")

    driver.add_to_batch(plan.id, [member(plan.id) for _ in range(1_500)], by="a job of no batch")
    before = driver.batch(plan.id)
    _run_all(driver, "default")

    assert (before.total, before.is_whole, before.finished_at) == (2_501, True, None)
    assert driver.batch(plan.id).finished_at is not None
    assert driver.size("callbacks") == Sizes(ready=2)


def test_f43_whoever_adds_from_outside_and_is_cut_short_holds_the_batch_open_for_a_lease(open_driver, proxy):
    with time_machine.travel(dt.datetime.now(dt.UTC), tick=True) as traveller:
        driver, cut_driver = open_driver(clock="local"), open_driver(proxy.url, clock="local")
        plan = batch(1)
        driver.push_batch(plan)
        proxy.cut_before(1)
        with pytest.raises(ConnectionLost):
            cut_driver.add_to_batch(plan.id, [member(plan.id) for _ in range(1_500)])
        _run_all(driver, "default")

        traveller.shift(59)
        early = driver.batch(plan.id)
        traveller.shift(2)
        (stored,) = driver.batches()

    assert (early.is_whole, early.finished_at) == (False, None)
    assert (stored.total, stored.done, stored.is_whole) == (1_001, 1_001, True)
    assert stored.finished_at is not None
    assert driver.size("callbacks") == Sizes(ready=2)


def test_f43_a_member_whose_key_is_held_counts_once_however_often_its_push_is_repeated(driver, cut_driver, proxy):
    driver.push([keyed()])
    plan = batch(1)
    driver.push_batch(plan)
    held = member(plan.id, key=keyed().envelope.ties.key)
    proxy.lose_answer(0)

    with pytest.raises(ConnectionLost):
        cut_driver.add_to_batch(plan.id, [held])
    cut_driver.add_to_batch(plan.id, [held])

    stored = driver.batch(plan.id)
    assert (stored.total, stored.pending, stored.skipped) == (2, 1, 1)


@pytest.mark.slow
def test_f43_workers_that_poll_while_a_batch_is_pushed_call_back_once_and_never_early(open_driver):
    rounds, size, workers = 12, 40, 8
    driver = open_driver()
    over = threading.Event()
    early, ran = [], []

    def work():
        worker, done = open_driver(), ()
        while not over.is_set():
            exchange = worker.exchange(done, ["callbacks", "default"], new_id(), roomy(3, names=NAMES))
            done = []
            for held in exchange.popped.reservations:
                ran.append(held.envelope)
                stored = driver.batch(held.envelope.ties.batch)
                if held.envelope.ties.is_callback:
                    early.extend([stored] if stored.pending or not stored.is_whole else [])
                    driver.prune_batches(older_than=0.0)
                done.append(Ack(held, skipped=held.envelope.id.endswith("0")))
        worker.settle(done)

    plans = [batch(size) for _ in range(rounds)]
    with ThreadPoolExecutor(workers) as pool:
        working = [pool.submit(work) for _ in range(workers)]
        try:
            for plan in plans:
                driver.push_batch(plan)
            until(lambda: len(ran) >= rounds * (size + 2), within=60.0)
        finally:
            over.set()
        for one in working:
            one.result(timeout=60)

    assert early == []
    assert sorted(job.id for job in ran) == sorted(
        push.envelope.id
        for plan in plans
        for push in [*plan.members, *[plan.callbacks[role] for role in plan.callbacks if role.value != "catch"]]
    )
    driver.prune_batches(older_than=0.0)
    assert driver.batches() == []


def test_f43_members_added_by_the_last_member_run_before_the_callbacks_and_late_ones_are_refused(driver):
    plan = batch(1)
    driver.push_batch(plan)
    last = pop_one(driver)

    added = driver.add_to_batch(plan.id, [member(plan.id)])
    after_the_last = driver.settle([Ack(last)]).followed
    driver.settle([Ack(pop_one(driver))])
    callback = pop_one(driver, "callbacks")
    late = driver.add_to_batch(plan.id, [member(plan.id)])
    driver.settle([release(callback, After(0.0))])

    assert added is not None
    assert after_the_last == ()
    assert callback.envelope.name == "shop.then"
    assert late is None
    assert driver.batch(plan.id).callbacks == 2
    assert driver.prune_batches(older_than=0.0) == 0


def _run_all(driver, queue):
    while popped := pop(driver, queue, room=roomy(1_000)).reservations:
        assert driver.settle([Ack(held) for held in popped]).stale == ()
