from __future__ import annotations

import time
from typing import Any

import pytest

from flask_jobs import Batch, BatchNotFound, InvalidArgument, Job, Status, StoreRefused, current_job
from flask_jobs.ids import new_id
from tests.apps import Draft, Order, Tidy, note

from .conftest import Once, Stage, Step

# Well below what SQLite waits for the write lock of somebody else.
SOON = 3

CALLBACKS: dict[str, Any] = {"then": Step("then"), "catch": Step("catch"), "finally_": Step("finally")}


def counts(batch: Batch) -> tuple[int, int, int, int]:
    """Pending, done, failed, skipped."""
    state = batch.state()
    assert state.total == state.pending + state.done + state.failed + state.skipped
    return state.pending, state.done, state.failed, state.skipped


def test_when_all_are_done_then_and_finally_run_once(stage: Stage) -> None:
    batch = stage.batch([Step("1"), Step("2"), Step("3")], name="statements", **CALLBACKS)
    stage.work()

    assert stage.noted == ["1", "2", "3", "then", "finally"]
    assert counts(batch) == (0, 3, 0, 0)
    assert (batch.progress, batch.is_finished, batch.is_cancelled) == (1.0, True, False)
    assert batch.state().name == "statements"


def test_the_first_failure_cancels_the_rest(queued: Stage) -> None:
    batch = queued.batch([Step("1"), Step("2", does="fail"), Step("3"), Step("4")], **CALLBACKS)
    queued.work()

    assert sorted(queued.noted) == sorted(["1", "2", "catch", "finally"])
    assert counts(batch) == (0, 1, 1, 2)
    assert batch.is_cancelled


def test_failures_may_be_allowed(stage: Stage) -> None:
    stage.batch([Step("1"), Step("2", does="fail"), Step("3")], allow_failures=True, **CALLBACKS)
    stage.work()

    assert sorted(stage.noted) == sorted(["1", "2", "3", "catch", "finally"])


def test_f42_members_count_however_they_end(queued: Stage) -> None:
    draft = Draft()
    queued.shop.session.add(draft)
    queued.shop.session.commit()
    batch = queued.batch(
        [Step("1"), Step("2", does="fail"), Step("3", does="delete"), Tidy(draft), Once("5"), Once("5")],
        allow_failures=True,
        **CALLBACKS,
    )
    queued.shop.session.delete(draft)
    queued.shop.session.commit()
    queued.work()

    assert counts(batch) == (0, 2, 1, 3)
    assert queued.noted.count("finally") == 1
    assert "then" not in queued.noted


def test_a_retried_member_keeps_its_batch(queued: Stage) -> None:
    batch = queued.batch([Step("1", failures=1)], allow_failures=True, **CALLBACKS)
    queued.work()
    before = counts(batch)
    queued.driver.retry(queued.driver.failed()[0].envelope.id, again := new_id())
    stored = queued.driver.find(again)
    queued.work()

    assert before == (0, 0, 1, 0)
    assert stored.envelope.ties.batch == batch.id
    assert queued.noted.count("finally") == queued.noted.count("catch") == 1


def test_a_retried_member_runs_although_its_own_failure_has_cancelled_the_batch(queued: Stage) -> None:
    batch = queued.batch([Step("1", failures=1), Step("2")], **CALLBACKS)
    queued.work()
    before = counts(batch)
    Step.handle, kept = (lambda self: note(f"{self.word} again")), Step.handle  # type: ignore[method-assign]
    try:
        queued.driver.retry(queued.driver.failed()[0].envelope.id, new_id())
        queued.work()
    finally:
        Step.handle = kept  # type: ignore[method-assign]

    assert before == (0, 0, 1, 1)
    assert counts(batch) == (0, 1, 0, 1)
    assert queued.noted == ["1", "catch", "finally", "1 again"]


@pytest.mark.parametrize("options", [{"name": None}, {"name": 5}, {"name": "\0"}, {"allow_failures": "no"}])
def test_what_cannot_be_an_option_of_a_batch_is_refused(stage: Stage, options: Any) -> None:
    with pytest.raises(InvalidArgument):
        stage.shop.jobs.batch([Step("1")], connection=stage.connection, **options)
    with pytest.raises(InvalidArgument, match="takes a list of jobs"):
        stage.shop.jobs.batch(Step("1"), connection=stage.connection)
    with pytest.raises(InvalidArgument, match="takes a list of jobs"):
        stage.shop.jobs.chain(None, connection=stage.connection)


def test_a_member_that_has_begun_has_its_next_attempt_although_the_batch_is_cancelled(queued: Stage) -> None:
    begun = Step("1", failures=1)
    begun.max_attempts = 2
    batch = queued.batch([begun, Step("2", does="fail"), Step("3")])
    queued.work()

    assert counts(batch) == (0, 1, 1, 1)
    assert sorted(queued.noted) == ["1", "1", "2"]


def test_an_empty_batch_finishes_at_once(stage: Stage) -> None:
    batch = stage.batch([], **CALLBACKS)
    stage.work()

    assert stage.noted == ["then", "finally"]
    assert (batch.progress, batch.is_finished) == (1.0, True)


def test_a_member_and_a_callback_find_their_batch(stage: Stage) -> None:
    class Look(Job):
        def __init__(self, word: str) -> None:
            self.word = word

        def handle(self) -> None:
            batch = current_job.batch
            assert batch is not None
            note(f"{self.word} {batch.id} {batch.state().pending} {batch.progress}")

    stage.shop.jobs.register("look")(Look)
    batch = stage.batch([Look("member")], finally_=Look("finally"))
    stage.work()

    assert stage.noted == [f"member {batch.id} 1 0.0", f"finally {batch.id} 0 1.0"]


def test_a_job_without_a_batch_has_none(stage: Stage) -> None:
    class Look(Job):
        def handle(self) -> None:
            note(str((current_job.batch, current_job.chain)))

    stage.shop.jobs.register("look")(Look)
    stage.dispatch(Look())
    stage.work()

    assert stage.noted == ["(None, None)"]


def test_members_add_members_while_it_runs(stage: Stage) -> None:
    class Spread(Job):
        def __init__(self, left: int) -> None:
            self.left = left

        def handle(self) -> None:
            note(f"spread {self.left}")
            if self.left:
                assert current_job.batch is not None
                current_job.batch.add([Spread(self.left - 1)])

    stage.shop.jobs.register("spread")(Spread)
    batch = stage.batch([Spread(2)], finally_=Step("finally"))
    stage.work()

    assert stage.noted == ["spread 2", "spread 1", "spread 0", "finally"]
    assert counts(batch) == (0, 3, 0, 0)


def test_f43_adding_from_a_callback_is_refused_and_loops_nowhere(stage: Stage) -> None:
    class AddMore(Job):
        max_attempts = 1

        def handle(self) -> None:
            assert current_job.batch is not None
            try:
                current_job.batch.add([Step("late")])
            except InvalidArgument as error:
                note("refused" if "finished" in str(error) else str(error))

    stage.shop.jobs.register("add-more")(AddMore)
    stage.batch([Step("1")], then=AddMore())
    stage.work()

    assert stage.noted == ["1", "refused"]


def test_a_cancelled_batch_runs_no_more_members_and_finishes(queued: Stage) -> None:
    batch = queued.batch([Step("1"), Step("2")], **CALLBACKS)

    assert batch.cancel()
    assert not batch.cancel()
    queued.work()

    assert queued.noted == ["finally"]
    assert counts(batch) == (0, 0, 0, 2)


def test_a_member_may_cancel_its_batch(stage: Stage) -> None:
    class Stop(Job):
        def handle(self) -> None:
            assert current_job.batch is not None
            current_job.batch.cancel()

    stage.shop.jobs.register("stop")(Stop)
    batch = stage.batch([Stop(), Step("2")], finally_=Step("finally"))
    stage.work()

    assert stage.noted == ["finally"]
    assert counts(batch) == (0, 1, 0, 1)


def test_a_batch_waits_for_the_commit(stage: Stage) -> None:
    session = stage.shop.session
    session.add(Order())
    session.flush()
    discarded = stage.batch([Step("lost")])
    session.rollback()
    session.add(Order())
    session.flush()
    batch = stage.batch([Step("1"), Step("2")], finally_=Step("finally"))
    with pytest.raises(BatchNotFound, match=batch.id):
        batch.state()
    session.commit()
    stage.work()

    assert discarded.status is Status.DISCARDED
    assert batch.status in (Status.PUSHED, Status.RAN)
    assert stage.noted == ["1", "2", "finally"]


@pytest.mark.parametrize("call", [lambda batch: batch.add([Step("2")]), Batch.cancel], ids=["add", "cancel"])
def test_what_is_asked_of_a_batch_that_is_not_committed_yet_is_refused_everywhere(stage: Stage, call: Any) -> None:
    session = stage.shop.session
    session.add(Order())
    session.flush()
    batch = stage.batch([Step("1")])
    began = time.monotonic()
    with pytest.raises(BatchNotFound, match="commit"):
        call(batch)
    took = time.monotonic() - began
    session.commit()
    stage.work()

    assert took < SOON
    assert stage.noted == ["1"]
    assert counts(batch) == (0, 1, 0, 0)


@pytest.mark.parametrize("call", [lambda batch: batch.add([Step("2")]), Batch.cancel], ids=["add", "cancel"])
def test_what_sqlite_cannot_write_beside_ones_own_transaction_is_refused_at_once(queued: Stage, call: Any) -> None:
    batch = queued.batch([Step("1")])
    session = queued.shop.session
    session.add(Order())
    session.flush()
    began = time.monotonic()
    if queued.kind == "database":
        with pytest.raises(StoreRefused, match="commit"):
            call(batch)
    else:
        call(batch)
    took = time.monotonic() - began
    session.commit()
    call(batch)

    assert took < SOON


def test_a_batch_is_found_by_its_id(stage: Stage) -> None:
    batch = stage.batch([Step("1")])
    stage.work()

    found = stage.shop.jobs.find_batch(batch.id, connection=stage.connection)
    assert found is not None
    assert found.state() == batch.state()
    assert stage.shop.jobs.find_batch(new_id(), connection=stage.connection) is None


def test_members_that_are_cleared_or_cancelled_count_as_skipped(queued: Stage) -> None:
    batch = queued.batch([Step("1"), Step("2"), Step("3")], queue="mail", finally_=Step("finally"))
    first = queued.driver.jobs("mail")[0].envelope.id
    queued.driver.cancel(first)
    queued.driver.clear("mail")
    queued.work()

    assert counts(batch) == (0, 0, 0, 3)
    assert queued.noted == ["finally"] or queued.kind == "database"
