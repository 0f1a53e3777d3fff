from __future__ import annotations

import datetime as dt
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from flask_jobs import InvalidArgument, Job, KeyHeld, Status, current_job, job_discarded
from flask_jobs.cli import jobs_cli
from flask_jobs.ids import new_id
from tests.apps import Order, Ship, note

from .conftest import Once, Stage, UntilRunning


def test_a_duplicate_is_false_and_names_the_job_that_waits(queued: Stage) -> None:
    first, again, other = (queued.dispatch(Once(word)) for word in ("a", "a", "b"))

    assert bool(first), bool(other)
    assert not again
    assert (again.status, again.holder) == (Status.DUPLICATE, first.id)
    queued.work()
    assert sorted(queued.noted) == ["a", "b"]


def test_the_key_is_free_when_the_job_has_ended(stage: Stage) -> None:
    stage.dispatch(Once("a"))
    stage.work()
    stage.dispatch(Once("b", does="fail"))
    stage.work()

    again = [stage.dispatch(Once("a")), stage.dispatch(Once("b"))]
    stage.work()

    assert all(again)
    assert stage.noted == ["a", "b", "a", "b"]


def test_a_unique_job_that_dispatches_itself_while_it_runs_is_a_duplicate(stage: Stage) -> None:
    answers: list[Any] = []

    class Self(Job):
        unique = True

        def handle(self) -> None:
            note("ran")
            answers.append(stage.dispatch(Self()))

    stage.shop.jobs.register("self")(Self)
    stage.dispatch(Self())
    stage.work()

    assert [answer.status for answer in answers] == [Status.DUPLICATE]
    assert stage.noted == ["ran"]


def test_until_processing_lets_the_next_one_in_when_the_body_runs(stage: Stage) -> None:
    answers: list[Any] = []

    class Follow(Job):
        unique = "until_processing"

        def __init__(self, left: int) -> None:
            self.left = left

        def handle(self) -> None:
            note(f"ran {self.left}")
            if self.left:
                answers.append(stage.dispatch(Follow(self.left - 1)))

    stage.shop.jobs.register("follow")(Follow)
    stage.dispatch(Follow(1))
    stage.work()

    assert [bool(answer) for answer in answers] == [True]
    assert stage.noted == ["ran 1", "ran 0"]


def test_f14_a_job_with_a_key_never_blocks_its_own_retry(queued: Stage) -> None:
    class Flaky(Job):
        unique = True
        unique_for = 3_600
        backoff = 0

        def handle(self) -> None:
            note(f"attempt {current_job.attempt}")
            if current_job.attempt == 1:
                raise ValueError

    queued.shop.jobs.register("flaky")(Flaky)
    queued.dispatch(Flaky())
    queued.work()

    assert queued.noted == ["attempt 1", "attempt 2"]
    assert queued.dispatch(Flaky())


def test_f14_a_delayed_job_holds_its_key_as_long_as_it_waits(queued: Stage) -> None:
    first = queued.dispatch(Once("a"), delay=dt.timedelta(days=30))

    assert queued.dispatch(Once("a")).holder == first.id


def test_f13_a_rollback_leaves_no_key(queued: Stage) -> None:
    session = queued.shop.session
    session.add(Order())
    session.flush()
    discarded = queued.dispatch(Once("a"))
    session.rollback()

    session.add(Order())
    session.flush()
    kept = queued.dispatch(Once("a"))
    session.commit()
    queued.work()

    assert (discarded.status, kept.status) == (Status.DISCARDED, Status.PUSHED)
    assert queued.noted == ["a"]
    assert queued.dispatch(Once("a"))


def test_f13_an_exception_in_a_request_leaves_no_key(queued: Stage) -> None:
    @queued.shop.app.post("/")
    def order() -> str:
        queued.shop.session.add(Order())
        queued.shop.session.flush()
        queued.dispatch(Once("a"))
        raise RuntimeError

    with ThreadPoolExecutor(1) as server:  # whose requests have contexts and sessions of their own
        answer = server.submit(queued.shop.app.test_client().post, "/").result(timeout=30)

    assert answer.status_code == 500
    assert queued.dispatch(Once("a")).status is Status.PUSHED


def test_a_deferred_dispatch_sees_what_its_transaction_has_deferred_and_what_is_stored(queued: Stage) -> None:
    stored = queued.dispatch(Once("stored"))
    session = queued.shop.session
    session.add(Order())
    session.flush()
    first = queued.dispatch(Once("a"))
    answers = [queued.dispatch(Once("a")), queued.dispatch(Once("stored"))]
    session.commit()

    assert [(answer.status, answer.holder) for answer in answers] == [
        (Status.DUPLICATE, first.id),
        (Status.DUPLICATE, stored.id),
    ]
    assert first.status is Status.PUSHED


def test_f32_a_key_deferred_in_a_savepoint_that_is_rolled_back_is_free_again(queued: Stage) -> None:
    session = queued.shop.session
    session.add(Order())
    session.flush()
    savepoint = session.begin_nested()
    dropped = queued.dispatch(Once("a"))
    savepoint.rollback()
    kept = queued.dispatch(Once("a"))
    session.commit()
    queued.work()

    assert (dropped.status, kept.status) == (Status.DISCARDED, Status.PUSHED)
    assert queued.noted == ["a"]


def test_a_key_that_somebody_else_took_before_the_commit_drops_the_job_then(
    queued: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    session = queued.shop.session
    session.add(Order())  # not flushed, so that on one SQLite file others can still write
    late = queued.dispatch(Once("a"))
    quick = queued.dispatch(Once("a"), after_commit=False)
    heard: list[str] = []

    def discarded(sender: object, **facts: Any) -> None:
        heard.append(facts["job_id"])

    with caplog.at_level(logging.WARNING, "flask_jobs.lifecycle"), job_discarded.connected_to(discarded):
        session.commit()

    assert (late.status, late.holder) == (Status.DUPLICATE, quick.id)
    assert heard == [late.id]
    assert [quick.id in record.getMessage() for record in caplog.records] == [True]


def test_f15_a_key_made_of_a_model_is_free_when_the_row_is_gone(queued: Stage) -> None:
    class ShipOnce(Ship):
        unique = True

        def unique_id(self) -> int:
            return self.order.id

    queued.shop.jobs.register("ship-once")(ShipOnce)
    order = queued.shop.add_order()
    queued.dispatch(ShipOnce(order))
    queued.shop.session.delete(order)
    queued.shop.session.commit()
    queued.work()

    again = queued.shop.add_order()
    again_id = again.id
    assert queued.dispatch(ShipOnce(again))
    assert again_id is not None


def test_a_failed_job_is_not_retried_while_another_one_holds_its_key(queued: Stage) -> None:
    failed = queued.dispatch(Once("a", does="fail"))
    queued.work()
    holder = queued.dispatch(Once("a"))

    with pytest.raises(KeyHeld, match="once:a") as refused:
        queued.driver.retry(failed.id, new_id())

    assert refused.value.holder == holder.id


def test_duplicates_among_many_are_false_and_the_rest_is_stored(queued: Stage) -> None:
    answers = queued.shop.jobs.dispatch_many([Once(word) for word in "abac"], connection=queued.connection)

    assert [bool(answer) for answer in answers] == [True, True, False, True]
    assert answers[2].holder == answers[0].id
    queued.work()
    assert sorted(queued.noted) == ["a", "b", "c"]


def test_a_task_is_unique_by_a_function_of_its_arguments(queued: Stage) -> None:
    @queued.shop.jobs.task("report", unique=True, unique_id=lambda day, copies: day)
    def report(day: str, copies: int) -> None:
        note(f"{day} {copies}")

    answers = [queued.dispatch(report(day, copies)) for day, copies in (("monday", 1), ("monday", 2), ("tuesday", 1))]

    assert [bool(answer) for answer in answers] == [True, False, True]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"unique": "for ever"}, "unique is True"),
        ({"unique": True, "unique_for": 0}, "unique_for must be more than 0"),
        ({"unique": True, "unique_id": lambda self: 1.5}, "unique_id.* not float"),
        ({"unique": True, "unique_id": lambda self: None}, "unique_id.* not NoneType"),
    ],
)
def test_what_cannot_be_a_key_is_refused_at_dispatch(stage: Stage, options: Any, complaint: str) -> None:
    cls = type("Odd", (Job,), {**options, "handle": lambda self: None})

    def register_and_dispatch() -> None:
        stage.shop.jobs.register("odd")(cls)
        stage.shop.jobs.dispatch(cls(), connection=stage.connection)

    with pytest.raises(InvalidArgument, match=complaint):
        register_and_dispatch()


def test_jobs_of_two_names_share_no_key(queued: Stage) -> None:
    assert queued.dispatch(Once("a"))
    assert queued.dispatch(UntilRunning("a"))


def test_explain_points_to_the_line_of_the_log_that_names_the_holder(queued: Stage, caplog: Any) -> None:
    caplog.set_level(logging.INFO, "flask_jobs.lifecycle")
    first, again = (queued.dispatch(Once("a")) for _ in range(2))

    said = queued.shop.app.test_cli_runner().invoke(jobs_cli, ["explain", again.id, "--connection", queued.connection])

    assert said.exit_code == 1
    assert f"look for [job:{again.id}] there" in " ".join(said.stderr.split())
    assert [line for line in caplog.messages if line.startswith(f"[job:{again.id}]") and first.id in line]


def test_the_fake_knows_of_which_job_another_is_a_duplicate(open_shop: Any) -> None:
    shop = open_shop()
    shop.jobs.register("once")(Once)
    with shop.context(), shop.jobs.fake() as queue:
        first, again = (shop.jobs.dispatch(Once("a")) for _ in range(2))
        with pytest.raises(AssertionError, match=f"dropped as a duplicate of {first.id}"):
            queue.assert_duplicate(Once, lambda job: job.word == "b")

        assert [(job.id, job.holder) for job in queue.duplicates(Once)] == [(again.id, first.id)]
        assert [job.holder for job in queue.pushed(Once)] == [None]
