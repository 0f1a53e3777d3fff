from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import freezegun
import pytest
import sqlalchemy as sa
import time_machine

from flask_jobs import (
    InvalidArgument,
    Job,
    ModelNotFound,
    NotRegistered,
    ReleaseJob,
    Status,
    UnknownJob,
    UnserializableJob,
    current_job,
)
from flask_jobs.testing.fake import FakeQueue
from tests.apps import Burst, Draft, Note, Order, Ship, Shop, Tidy, note

Open = Callable[..., Shop]
START = dt.datetime(2031, 5, 4, 3, 2, 1, tzinfo=dt.UTC)


@pytest.fixture
def queue(jobs_shop: Shop) -> Iterator[FakeQueue]:
    with jobs_shop.jobs.fake() as queue:
        yield queue


def refused(assertion: Callable[..., None], *args: Any, **given: Any) -> str:
    """The message of an assertion that fails."""
    with pytest.raises(AssertionError) as caught:
        assertion(*args, **given)
    return str(caught.value)


# The assertions


def test_what_was_pushed_is_found_by_class_by_name_and_by_task(jobs_shop: Shop, queue: FakeQueue) -> None:
    @jobs_shop.jobs.task("nightly", aliases=["weekly"])
    def nightly(day: str) -> None:
        pass

    jobs_shop.jobs.dispatch(Note("x"))
    jobs_shop.jobs.dispatch(nightly("monday"))

    for wanted in (Note, "note", nightly, "nightly", "weekly"):
        queue.assert_pushed(wanted)
        queue.assert_pushed_once(wanted)
        assert queue.has_pushed(wanted)
    queue.assert_not_pushed(Burst)
    queue.assert_count(2)
    assert [push.name for push in queue.pushed()] == ["note", "nightly"]


def test_nothing_was_pushed(queue: FakeQueue) -> None:
    queue.assert_nothing_pushed()

    assert refused(queue.assert_pushed, Note) == "Note was not pushed.\nNothing was pushed."


def test_a_job_of_another_name_is_the_nearest(jobs_shop: Shop, queue: FakeQueue) -> None:
    jobs_shop.jobs.dispatch(Burst("loud", 2))
    jobs_shop.jobs.dispatch(Note("soft"))

    message = refused(queue.assert_pushed, Tidy)

    assert message.startswith("Tidy was not pushed.\nThe nearest is ")
    assert "its name is 'note', not 'tidy'" in message or "its name is 'burst', not 'tidy'" in message
    assert "  1. burst(word='loud', times=2) on queue 'default' of 'database'\n" in message
    assert "  2. note(word='soft') on queue 'default' of 'database'" in message


def test_a_job_for_which_the_condition_is_false_is_the_nearest(jobs_shop: Shop, queue: FakeQueue) -> None:
    jobs_shop.jobs.dispatch(Note("soft"))

    queue.assert_pushed(Note, lambda job: job.word == "soft")
    queue.assert_not_pushed(Note, lambda job: job.word == "loud")
    message = refused(queue.assert_pushed, Note, lambda job: job.word == "loud")

    assert message.startswith("Note was not pushed such that the condition holds.\n")
    assert (
        "The nearest is note(word='soft') on queue 'default' of 'database': the condition is false for it." in message
    )


def test_a_job_that_should_not_be_there_is_shown(jobs_shop: Shop, queue: FakeQueue) -> None:
    jobs_shop.jobs.dispatch(Note("x"))

    assert "note(word='x')" in refused(queue.assert_not_pushed, Note)
    assert "such that the condition holds" in refused(queue.assert_not_pushed, Note, lambda job: True)
    assert refused(queue.assert_nothing_pushed).startswith("1 jobs were pushed, not 0:\n  1. note(word='x')")
    assert refused(queue.assert_count, 2).startswith("1 jobs were pushed, not 2:")


def test_how_often_a_job_was_pushed(jobs_shop: Shop, queue: FakeQueue) -> None:
    jobs_shop.jobs.dispatch_many([Note("a"), Note("b"), Burst("c")])

    queue.assert_pushed_times(Note, 2)
    queue.assert_pushed_times(Note, 1, lambda job: job.word == "a")
    queue.assert_pushed_once(Burst)
    assert "Note was pushed 2 times, not 1" in refused(queue.assert_pushed_once, Note)
    assert "Note was pushed 2 times, not 3" in refused(queue.assert_pushed_times, Note, 3)


def test_on_which_queue_a_job_was_pushed(jobs_shop: Shop, queue: FakeQueue) -> None:
    jobs_shop.jobs.dispatch(Note("x"), queue="letters")

    queue.assert_pushed_on("letters", Note)
    message = refused(queue.assert_pushed_on, "parcels", Note)

    assert message.startswith("Note was not pushed on the queue 'parcels'.\n")
    assert "it is on the queue 'letters', not 'parcels'." in message


@pytest.mark.parametrize("delay", [90, dt.timedelta(seconds=90)])
def test_with_which_delay_a_job_was_pushed(jobs_shop: Shop, queue: FakeQueue, delay: Any) -> None:
    jobs_shop.jobs.dispatch(Note("far"), delay=5_000)
    jobs_shop.jobs.dispatch(Note("near"), delay=delay)

    queue.assert_pushed_in(Note, delay)
    queue.assert_pushed_in(Note, 100, delta=10)
    queue.assert_pushed_in(Note, 90, where=lambda job: job.word == "near")
    message = refused(queue.assert_pushed_in, Note, 60)

    assert message.startswith("Note was not pushed with a delay of 60 s.\nThe nearest is note(word='near')")
    assert "its delay is 90 s, not 60 s." in message
    assert "due in 5000 s" in message


def test_the_delay_until_an_instant_is_counted_by_the_tests_clock(jobs_shop: Shop, queue: FakeQueue) -> None:
    with time_machine.travel(START, tick=False):
        jobs_shop.jobs.dispatch(Note("x"), delay=START + dt.timedelta(hours=1))

    queue.assert_pushed_in(Note, dt.timedelta(hours=1), delta=0)


def test_whether_a_job_waited_for_a_commit(jobs_shop: Shop, queue: FakeQueue) -> None:
    jobs_shop.jobs.dispatch(Note("at once"))
    message = refused(queue.assert_pushed_after_commit, Note)
    jobs_shop.session.add(Order())
    jobs_shop.jobs.dispatch(Note("waits"))
    queue.assert_count(1)
    jobs_shop.session.commit()

    queue.assert_pushed_after_commit(Note)
    queue.assert_pushed_after_commit(Note, lambda job: job.word == "waits")
    assert "it was pushed at once" in message
    assert [push.after_commit for push in queue.pushed(Note)] == [False, True]


def test_a_long_list_is_cut(jobs_shop: Shop, queue: FakeQueue) -> None:
    jobs_shop.jobs.dispatch_many(Note(str(number)) for number in range(12))

    assert refused(queue.assert_pushed, Burst).endswith("… and 2 more")


def test_sensitive_fields_are_not_shown(jobs_shop: Shop, queue: FakeQueue) -> None:
    class Secret(Note):
        sensitive = ("word",)

    jobs_shop.jobs.register("secret")(Secret)
    jobs_shop.jobs.dispatch(Secret("hunter2"))

    assert "hunter2" not in refused(queue.assert_not_pushed, Secret)


def test_an_assertion_about_what_is_no_job_says_so(queue: FakeQueue) -> None:
    class Nameless(Job):
        pass

    with pytest.raises(NotRegistered, match="Nameless"):
        queue.assert_not_pushed(Nameless)
    with pytest.raises(UnknownJob, match="noet"):
        queue.assert_not_pushed("noet")


def test_reset_forgets_what_was_pushed_and_what_waits(jobs_shop: Shop, queue: FakeQueue) -> None:
    jobs_shop.jobs.dispatch(Note("x"))

    queue.reset()

    queue.assert_nothing_pushed()
    assert queue.drain() == []
    jobs_shop.jobs.dispatch(Note("y"))
    queue.assert_pushed_once(Note)


def test_one_push_tells_of_itself(jobs_shop: Shop, queue: FakeQueue) -> None:
    answer = jobs_shop.jobs.dispatch(Note("x"), queue="letters", connection="sync", delay=5)

    [push] = queue.pushed(Note)
    assert (push.id, push.name, push.queue, push.connection) == (answer.id, "note", "letters", "sync")
    assert push.delay == 5
    assert isinstance(push.job, Note)
    assert push.job.word == "x"


def test_a_repeated_id_is_recorded_once(jobs_shop: Shop, queue: FakeQueue) -> None:
    answer = jobs_shop.jobs.dispatch(Note("x"))
    jobs_shop.jobs.dispatch(Note("x"), id=answer.id)

    queue.assert_pushed_once(Note)


# Models


def test_a_condition_sees_models_as_a_worker_would_load_them(each_shop: Shop) -> None:
    with each_shop.jobs.fake() as queue:
        order = each_shop.add_order("new")
        each_shop.jobs.dispatch(Ship(order))
        with each_shop.engine.begin() as connection:
            connection.execute(sa.update(Order).values(state="paid"))
        assert order in each_shop.session

        queue.assert_pushed(Ship, lambda job: job.order.state == "paid")
        queue.assert_not_pushed(Ship, lambda job: job.order is order)


def test_a_condition_leaves_the_callers_session_alone(each_shop: Shop) -> None:
    with each_shop.jobs.fake() as queue:
        order = each_shop.add_order("new")
        each_shop.jobs.dispatch(Ship(order))
        order.state = "half-way"
        queue.assert_pushed(Ship, lambda job: job.order.state == "new")

        assert order in each_shop.session.dirty
        each_shop.session.commit()

    assert each_shop.rows("SELECT state FROM orders") == [("half-way",)]


def test_a_condition_needs_no_app_context_of_the_test(open_shop: Open) -> None:
    shop = open_shop()
    with shop.context():
        fake = shop.jobs.fake()
        queue = fake.__enter__()
        shop.jobs.dispatch(Ship(shop.add_order("new")))

    queue.assert_pushed(Ship, lambda job: job.order.state == "new")
    queue.drain()

    fake.__exit__(None, None, None)
    assert shop.noted == ["ship new"]


def test_a_condition_on_a_row_that_is_gone_says_so(jobs_shop: Shop, queue: FakeQueue) -> None:
    order = jobs_shop.add_order()
    jobs_shop.jobs.dispatch(Ship(order))
    jobs_shop.session.delete(order)
    jobs_shop.session.commit()

    queue.assert_pushed(Ship)
    with pytest.raises(ModelNotFound):
        queue.assert_pushed(Ship, lambda job: True)


# Draining


def test_drain_runs_what_was_recorded_with_retries(jobs_shop: Shop, queue: FakeQueue) -> None:
    jobs_shop.jobs.dispatch(Burst("twice", 2))
    jobs_shop.jobs.dispatch(Burst("always"))

    results = queue.drain()

    assert sorted(jobs_shop.noted) == ["always"] * 3 + ["always failed: ValueError"] + ["twice"] * 3
    assert sorted(str(result).partition(" ")[0] for result in results) == ["done", "failed", "put", "put", "put", "put"]
    assert [failed.name for failed in queue.failed] == ["burst"]
    assert queue.drain() == []
    queue.assert_count(2)


def test_drain_runs_what_the_jobs_dispatch_themselves(jobs_shop: Shop, queue: FakeQueue) -> None:
    class Parent(Job):
        def handle(self) -> None:
            jobs_shop.jobs.dispatch(Note("child"))

    jobs_shop.jobs.register("parent")(Parent)
    jobs_shop.jobs.dispatch(Parent())

    assert [result.name for result in queue.drain()] == ["parent", "note"]
    assert jobs_shop.noted == ["child"]


def test_drain_with_travel_moves_the_fakes_own_clock_to_each_next_due_time(jobs_shop: Shop, queue: FakeQueue) -> None:
    class Slow(Burst):
        backoff = (3_600, 7_200)

    jobs_shop.jobs.register("slow")(Slow)
    jobs_shop.jobs.dispatch(Note("in an hour and a half"), delay=5_400)
    jobs_shop.jobs.dispatch(Slow("slow", 2))

    assert len(queue.drain()) == 1
    assert len(queue.drain(travel=True)) == 3
    assert jobs_shop.noted == ["slow", "slow", "in an hour and a half", "slow"]


def test_drain_with_travel_gives_up_a_job_whose_deadline_passes(jobs_shop: Shop, queue: FakeQueue) -> None:
    class Hasty(Burst):
        backoff = 60
        retry_until = dt.timedelta(seconds=150)

    jobs_shop.jobs.register("hasty")(Hasty)
    jobs_shop.jobs.dispatch(Hasty("hasty"))

    queue.drain(travel=True)

    assert jobs_shop.noted == ["hasty", "hasty", "hasty", "hasty failed: ValueError"]


def test_drain_ends_when_a_job_releases_itself_for_ever(jobs_shop: Shop, queue: FakeQueue) -> None:
    class Restless(Job):
        max_attempts = 0

        def handle(self) -> None:
            current_job.release()

    jobs_shop.jobs.register("restless")(Restless)
    jobs_shop.jobs.dispatch(Restless())

    message = refused(queue.drain, limit=20)

    assert message.startswith("drain() has run 20 attempts, and jobs are still due:\n  1. restless()")


def test_drain_runs_jobs_of_every_queue_and_connection(jobs_shop: Shop, queue: FakeQueue) -> None:
    jobs_shop.jobs.dispatch(Note("z"), queue="z")
    jobs_shop.jobs.dispatch(Note("a"), queue="a")
    jobs_shop.jobs.dispatch(Note("sync"), connection="sync")

    queue.drain()

    assert sorted(jobs_shop.noted) == ["a", "sync", "z"]


def test_drain_leaves_the_callers_session_alone(each_shop: Shop) -> None:
    with each_shop.jobs.fake() as queue:
        order = each_shop.add_order("new")
        each_shop.jobs.dispatch(Ship(order))
        order.state = "half-way"

        queue.drain()

        assert each_shop.noted == ["ship new"]
        assert order in each_shop.session.dirty


def test_drain_ends_quietly_the_job_whose_row_is_gone_if_its_model_says_so(jobs_shop: Shop, queue: FakeQueue) -> None:
    draft = Draft()
    jobs_shop.session.add(draft)
    jobs_shop.session.commit()
    jobs_shop.jobs.dispatch(Tidy(draft))
    jobs_shop.session.delete(draft)
    jobs_shop.session.commit()

    [result] = queue.drain()

    result.assert_skipped()
    result.assert_done()
    assert (jobs_shop.noted, queue.failed) == ([], [])


@pytest.mark.parametrize("freeze", [freezegun.freeze_time, lambda at: time_machine.travel(at, tick=False)])
def test_due_is_what_is_due_by_the_tests_clock(jobs_shop: Shop, queue: FakeQueue, freeze: Any) -> None:
    with freeze(START):
        jobs_shop.jobs.dispatch(Note("x"), delay=3_600)
        assert queue.drain() == []
    with freeze(START + dt.timedelta(minutes=59, seconds=59)):
        assert queue.drain() == []
    with freeze(START + dt.timedelta(hours=1)):
        assert len(queue.drain()) == 1


# What the fake refuses and honours, as production does


@dataclass
class Basket:
    items: list[str] = field(default_factory=list)


class Pack(Job):
    def __init__(self, basket: Basket, anything: object = None) -> None:
        self.basket = basket
        self.anything = anything

    def handle(self) -> None:
        note(",".join(self.basket.items))


def outcome(shop: Shop, connection: str, make: Callable[[Shop], Job]) -> tuple[type[BaseException] | None, str]:
    """The error that a dispatch raises there, if any."""
    try:
        shop.jobs.dispatch(make(shop), connection=connection)
    except Exception as error:  # whatever it is, it is compared
        return type(error), str(error)
    return None, ""


def never_flushed(shop: Shop) -> Job:
    order = Order()
    shop.session.add(order)
    return Ship(order)


def detached(shop: Shop) -> Job:
    order = shop.add_order()
    shop.session.expunge(order)
    return Ship(order)


def deleted(shop: Shop) -> Job:
    order = shop.add_order()
    shop.session.delete(order)
    shop.session.flush()
    return Ship(order)


def misrouted(shop: Shop) -> Job:
    job = Note("x")
    job.queue = "a:b"
    return job


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda shop: Pack(Basket(), lambda: None), UnserializableJob),
        (lambda shop: Pack(Basket(), Path(__file__).open()), UnserializableJob),  # noqa: SIM115
        (never_flushed, UnserializableJob),
        (detached, None),
        (deleted, UnserializableJob),
        (lambda shop: Note("x" * 2_000_000), UnserializableJob),
        (lambda shop: type("Nameless", (Job,), {})(), NotRegistered),
        (misrouted, InvalidArgument),
    ],
    ids=["lambda", "open file", "never flushed", "detached", "deleted", "oversized", "unregistered", "queue"],
)
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_f48_the_fake_refuses_what_production_refuses(
    open_shop: Open, make: Callable[[Shop], Job], error: type[BaseException] | None
) -> None:
    shop = open_shop()
    shop.jobs.register("pack")(Pack)
    with shop.context():
        real = [outcome(shop, connection, make) for connection in ("database", "sync")]
        shop.session.rollback()
        with shop.jobs.fake() as queue:
            faked = outcome(shop, "database", make)
            shop.session.rollback()

    assert real == [faked, faked]
    assert faked[0] is error
    queue.assert_count(0 if error else 1)


def test_f48_a_mutation_after_the_dispatch_is_not_seen(jobs_shop: Shop, queue: FakeQueue) -> None:
    jobs_shop.jobs.register("pack")(Pack)
    basket = Basket(["book"])
    job = Pack(basket)
    jobs_shop.jobs.dispatch(job)
    basket.items.append("pen")
    job.anything = "late"

    queue.assert_pushed(Pack, lambda job: job.basket.items == ["book"] and job.anything is None)
    queue.drain()

    assert jobs_shop.noted == ["book"]


def test_f48_nothing_is_recorded_of_a_block_that_was_rolled_back(each_shop: Shop) -> None:
    with each_shop.jobs.fake() as queue:
        each_shop.session.add(Order())
        answer = each_shop.jobs.dispatch(Note("x"))
        each_shop.session.rollback()

        with each_shop.session.begin_nested() as savepoint:
            each_shop.session.add(Order())
            each_shop.jobs.dispatch(Note("y"))
            savepoint.rollback()
        each_shop.session.commit()

    queue.assert_nothing_pushed()
    assert answer.status is Status.DISCARDED


def test_f48_leaving_the_inner_fake_restores_the_outer_and_then_the_store(jobs_shop: Shop) -> None:
    with jobs_shop.jobs.fake() as outer:
        jobs_shop.jobs.dispatch(Note("1"))
        with jobs_shop.jobs.fake() as inner:
            jobs_shop.jobs.dispatch(Note("2"))
        jobs_shop.jobs.dispatch(Note("3"))
        assert jobs_shop.stored() == []
    jobs_shop.jobs.dispatch(Note("4"))

    assert [push.job.word for push in outer.pushed()] == ["1", "3"]
    assert [push.job.word for push in inner.pushed()] == ["2"]
    assert jobs_shop.stored() == ["note"]


def test_a_fake_is_left_when_the_block_raises(jobs_shop: Shop) -> None:
    with pytest.raises(ZeroDivisionError), jobs_shop.jobs.fake():
        raise ZeroDivisionError

    jobs_shop.jobs.dispatch(Note("x"))
    assert jobs_shop.stored() == ["note"]


def test_a_job_dispatched_under_a_fake_never_reaches_the_store_even_if_it_is_committed_later(
    jobs_shop: Shop,
) -> None:
    with jobs_shop.jobs.fake() as queue:
        jobs_shop.session.add(Order())
        jobs_shop.jobs.dispatch(Note("x"))
    jobs_shop.session.commit()

    queue.assert_pushed_once(Note)
    assert jobs_shop.stored() == []


def test_dispatches_of_other_threads_are_recorded_as_well(jobs_shop: Shop, queue: FakeQueue) -> None:
    import threading

    def dispatch() -> None:
        with jobs_shop.context():
            for _ in range(50):
                jobs_shop.jobs.dispatch(Note("x"))

    threads = [threading.Thread(target=dispatch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    queue.assert_pushed_times(Note, 200)


def test_middleware_and_its_releases_are_honoured(jobs_shop: Shop, queue: FakeQueue) -> None:
    class Gate:
        def handle(self, job: Any, call_next: Callable[[], None]) -> None:
            note("gate")
            if jobs_shop.noted.count("gate") < 2:
                raise ReleaseJob(30)
            call_next()

    class Guarded(Note):
        max_attempts = 1

        def middleware(self) -> list[Gate]:
            return [Gate()]

    jobs_shop.jobs.register("guarded")(Guarded)
    jobs_shop.jobs.dispatch(Guarded("in"))

    results = queue.drain(travel=True)

    results[0].assert_released(30)
    results[1].assert_done()
    assert jobs_shop.noted == ["gate", "gate", "in"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda queue, job: queue.assert_pushed(job),
        lambda queue, job: queue.assert_not_pushed(job),
        lambda queue, job: queue.assert_pushed_once(job),
        lambda queue, job: queue.assert_pushed_times(job, 1),
        lambda queue, job: queue.assert_pushed_on("default", job),
        lambda queue, job: queue.assert_pushed_in(job, 0),
        lambda queue, job: queue.assert_pushed_after_commit(job),
        lambda queue, job: queue.assert_duplicate(job),
        lambda queue, job: queue.assert_chained([job]),
        lambda queue, job: queue.assert_batched([Note, job]),
        lambda queue, job: queue.pushed(job),
        lambda queue, job: queue.duplicates(job),
        lambda queue, job: queue.has_pushed(job),
    ],
)
def test_one_job_is_no_kind_of_job(jobs_shop: Shop, queue: FakeQueue, ask: Callable[[FakeQueue, Any], object]) -> None:
    jobs_shop.jobs.dispatch(Note("x"))

    with pytest.raises(InvalidArgument, match=r"give the class, and where="):
        ask(queue, Note("zzz"))
