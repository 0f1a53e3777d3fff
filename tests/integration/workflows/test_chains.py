from __future__ import annotations

from typing import Any

import pytest

from flask_jobs import InvalidArgument, Job, Status, current_job
from flask_jobs.ids import new_id
from tests.apps import Draft, Order, Ship, Tidy, note

from .conftest import Once, Stage, Step


def steps(*words: str, at: int = 0, **does: Any) -> list[Step]:
    """A step for each word; the one at this place does something else than to succeed."""
    return [Step(word, **(does if place == at else {})) for place, word in enumerate(words)]


def test_links_run_one_after_the_other(stage: Stage) -> None:
    answer = stage.chain(steps("1", "2", "3"))
    stage.work()

    assert answer
    assert answer.chain is not None
    assert stage.noted == ["1", "2", "3"]
    assert stage.shop.jobs.find_chain(answer.chain, connection=stage.connection) is None


def test_a_chain_shows_where_it_stands(queued: Stage) -> None:
    answer = queued.chain([Step("1"), Step("2"), Once("3")], catch=Step("sorry"))

    stored = queued.shop.jobs.find_chain(answer.chain, connection=queued.connection)
    assert stored is not None
    assert (stored.link, stored.total, stored.job_id) == (1, 3, answer.id)
    assert [envelope.name for envelope in stored.waiting] == ["step", "once"]
    assert stored.catch is not None


@pytest.mark.parametrize("does", ["delete"])
def test_f44_a_link_that_ends_quietly_lets_the_next_one_run(stage: Stage, does: str) -> None:
    stage.chain(steps("1", "2", "3", at=1, does=does), catch=Step("sorry"))
    stage.work()

    assert stage.noted == ["1", "2", "3"]


def test_f44_a_link_whose_model_is_gone_quietly_lets_the_next_one_run(queued: Stage) -> None:
    draft = Draft()
    queued.shop.session.add(draft)
    queued.shop.session.commit()
    queued.chain([Step("1"), Tidy(draft), Step("3")])
    queued.shop.session.delete(draft)
    queued.shop.session.commit()
    queued.work()

    assert queued.noted == ["1", "3"]


def test_f44_a_failure_stops_the_chain_and_runs_catch_once(stage: Stage) -> None:
    stage.chain(steps("1", "2", "3", at=1, does="fail"), catch=Step("sorry"))
    stage.work()

    assert stage.noted == ["1", "2", "sorry"]


def test_f44_a_link_that_fails_once_goes_on_after_its_retry(queued: Stage) -> None:
    flaky = Step("2", failures=1)
    flaky.max_attempts = 2
    queued.chain([Step("1"), flaky, Step("3")], catch=Step("sorry"))
    queued.work()

    assert queued.noted == ["1", "2", "2", "3"]


def test_f44_a_release_changes_nothing(queued: Stage) -> None:
    patient = Step("2", does="release")
    patient.max_attempts = 3
    queued.chain([Step("1"), patient, Step("3")])
    queued.work()

    assert queued.noted == ["1", "2", "2", "2", "3"]


def test_f44_a_retry_of_the_failed_link_brings_the_rest_along(queued: Stage) -> None:
    queued.chain([Step("1"), Step("2", failures=1), Step("3")], catch=Step("sorry"))
    queued.work()
    failed = queued.driver.failed()[0].envelope.id

    assert queued.noted == ["1", "2", "sorry"]
    queued.driver.retry(failed, new_id())
    # Its attempts begin anew, so that it fails again; the second retry is of another mind.
    Step.handle, kept = (lambda self: note(f"{self.word} again")), Step.handle  # type: ignore[method-assign]
    try:
        queued.work()
    finally:
        Step.handle = kept  # type: ignore[method-assign]

    assert queued.noted == ["1", "2", "sorry", "2 again", "3 again"]


def test_each_link_goes_to_its_own_queue_else_to_the_chains(queued: Stage) -> None:
    class Mail(Step):
        queue = "mail"

    class Where(Step):
        def handle(self) -> None:
            note(f"{self.word} on {current_job.queue}")

    class Letter(Where, Mail):
        pass

    queued.shop.jobs.register("where")(Where)
    queued.shop.jobs.register("letter")(Letter)
    queued.chain([Where("1"), Letter("2"), Where("3")], queue="default")
    queued.work()

    assert queued.noted == ["1 on default", "2 on mail", "3 on default"]


def test_a_job_knows_its_place_in_the_chain(stage: Stage) -> None:
    class Where(Job):
        def handle(self) -> None:
            assert current_job.chain is not None
            note(f"{current_job.chain.link} of {current_job.chain.id}")

    stage.shop.jobs.register("where")(Where)
    answer = stage.chain([Where(), Where()])
    stage.work()

    assert stage.noted == [f"1 of {answer.chain}", f"2 of {answer.chain}"]


def test_a_link_for_another_connection_and_an_empty_chain_are_refused(stage: Stage) -> None:
    class Elsewhere(Step):
        connection = "redis" if stage.connection == "sync" else "sync"

    stage.shop.jobs.register("elsewhere")(Elsewhere)

    with pytest.raises(InvalidArgument, match="is for the connection"):
        stage.shop.jobs.chain([Step("1"), Elsewhere("2")], connection=stage.connection)
    with pytest.raises(InvalidArgument, match="at least one"):
        stage.shop.jobs.chain([], connection=stage.connection)
    assert stage.noted == []


def test_a_chain_waits_for_the_commit_as_a_whole(stage: Stage) -> None:
    session = stage.shop.session
    order = Order(state="new")
    session.add(order)
    session.flush()
    discarded = stage.chain([Ship(order), Step("2")])
    session.rollback()
    order = Order(state="paid")
    session.add(order)
    session.flush()
    kept = stage.chain([Ship(order), Step("2")])
    before = list(stage.noted)
    session.commit()
    stage.work()

    assert before == []
    assert discarded.status is Status.DISCARDED
    assert kept.status in (Status.PUSHED, Status.RAN)
    assert stage.noted == ["ship paid", "2"]


def test_a_later_link_that_is_a_duplicate_is_dropped_with_the_rest_and_logged(
    queued: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    holder = queued.dispatch(Once("a"), delay=3_600)
    queued.chain([Step("1"), Once("a"), Step("3")], catch=Step("sorry"))

    with caplog.at_level("WARNING", "flask_jobs.lifecycle"):
        queued.work()

    assert queued.noted == ["1"]
    assert any(holder.id in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("how", ["cancel", "clear"])
def test_cancel_and_clear_end_the_chain(queued: Stage, how: str) -> None:
    answer = queued.chain([Step("1"), Step("2")], catch=Step("sorry"))
    if how == "cancel":
        queued.driver.cancel(answer.id)
    else:
        queued.driver.clear("default")
    queued.work()

    assert queued.noted == []
    assert queued.shop.jobs.find_chain(answer.chain, connection=queued.connection) is None
