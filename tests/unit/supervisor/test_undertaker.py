"""Settling for the dead while the store comes and goes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from flask_jobs import clock
from flask_jobs.drivers.memory import MemoryDriver
from flask_jobs.envelope import Envelope, Fail, Room, Settled, Settlement
from flask_jobs.errors import ConnectionLost
from flask_jobs.events import Events, job_failed
from flask_jobs.options import JobOptions, WorkerDefaults
from flask_jobs.outcome import Hopeless
from flask_jobs.policy import decide
from flask_jobs.pushes import Push
from flask_jobs.slate import LEFT, Held, Running, State, View
from flask_jobs.stored import Sizes
from flask_jobs.supervisor.undertaker import Estate, Undertaker
from flask_jobs.worker.pause import pause


class LosesAnswers(MemoryDriver):
    """Does what it is asked to, but the first answer to a settlement does not arrive."""

    has_lost = False

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        settled = super().settle(settlements)
        if not self.has_lost:
            self.has_lost = True
            raise ConnectionLost("cut after it was applied")
        return settled


class Chokes(MemoryDriver):
    """Cannot settle the job of this id, for no reason that anybody knows of."""

    def __init__(self, job_id: str) -> None:
        super().__init__()
        self._job_id = job_id

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        if any(settlement.reservation.envelope.id == self._job_id for settlement in settlements):
            raise RuntimeError("a bug")
        return super().settle(settlements)


class Errands(list[str]):
    def __init__(self) -> None:
        self.came = threading.Event()

    def add(self, job_id: str) -> None:
        self.append(job_id)
        self.came.set()


def taken(driver: MemoryDriver, job_id: str = "a") -> Held:
    driver.push([Push(Envelope(job_id, "demo", "default", body="{}"))])
    (held,) = driver.pop(["default"], job_id, Room()).reservations
    return Held(job_id, held.receipt, "default", "demo", held.attempt, State.STARTED)


def lane(
    *held: Held, number: int = 0, limit: float = 60.0, token: str = "a", asking: str | None = None, in_use: bool = False
) -> View:
    running = Running(0, clock.monotonic(), limit, JobOptions(max_attempts=1).text)
    return View(number, 1, asking, token, clock.monotonic(), held, running, in_use)


def estate(*lanes: View) -> Estate:
    return Estate(lanes, "was ended by signal 9", False, False, frozenset(), clock.monotonic())


def left(held: Held, limit: float = 60.0, *, token: str = "a", in_use: bool = False) -> Estate:
    return estate(lane(held, limit=limit, token=token, in_use=in_use))


def undertaker(driver: MemoryDriver, errands: Errands) -> Undertaker:
    one = Undertaker(driver, Events(object()), defaults=WorkerDefaults(tries=1), errand=errands.add)
    one.start()
    return one


def test_a_job_that_is_failed_by_a_settlement_whose_answer_is_lost_gets_its_hook_all_the_same() -> None:
    driver, errands = LosesAnswers(), Errands()
    held = taken(driver)

    undertaker(driver, errands).settle(left(held))

    assert errands.came.wait(10)
    assert errands == ["a"]
    assert driver.count_failed() == 1


def test_a_job_that_its_worker_has_failed_with_its_last_breath_gets_its_hook() -> None:
    driver, errands = MemoryDriver(), Errands()
    held = taken(driver)
    fail_it(driver)

    undertaker(driver, errands).settle(left(held))

    assert errands.came.wait(10)
    assert errands == ["a"]


@pytest.mark.parametrize(("limit", "expected"), [(LEFT, ["a"]), (60.0, []), (0.0, [])])
def test_of_a_job_that_was_settled_and_not_told_of_the_hook_is_called_unless_it_was_begun(
    limit: float, expected: list[str]
) -> None:
    driver, errands = MemoryDriver(), Errands()
    held = taken(driver)
    fail_it(driver)
    settled = Held(held.id, held.receipt, held.queue, held.name, held.attempt, State.SETTLED)

    one = undertaker(driver, errands)
    one.settle(left(settled, limit, in_use=True))
    pause(10, until=lambda: not one.estates)

    assert errands == expected


def fail_it(driver: MemoryDriver, token: str = "a") -> None:
    (reservation,) = driver.held(token)
    fail = decide(reservation, Hopeless(ValueError("no")), JobOptions(), now=reservation.now, jitter=0)
    assert isinstance(fail, Fail)
    driver.settle([fail])


def test_what_a_driver_cannot_settle_for_one_lane_keeps_no_other_lane_and_no_token_from_its_end() -> None:
    driver, errands = Chokes("a"), Errands()
    first, second = taken(driver, "a"), taken(driver, "b")
    settled, _ = taken(driver, "c"), taken(driver, "d")
    fail_it(driver, "c")
    lanes = (
        lane(first, token="a"),
        lane(second, number=1, token="b", asking="d"),
        lane(replace(settled, state=State.SETTLED), number=2, limit=LEFT, token="c", in_use=True),
    )

    one = undertaker(driver, errands)
    one.settle(estate(*lanes))
    pause(10, until=lambda: not one.estates)

    assert errands == ["b", "c"]
    assert {failed.envelope.id for failed in driver.failed()} == {"b", "c"}
    assert [held.envelope.id for held in driver.held("a")] == ["a"]
    assert driver.held("d") == []
    assert driver.size("default").ready == 1


@pytest.mark.parametrize("others_die", [False, True])
def test_what_a_dead_workers_last_pop_takes_when_it_was_recovered_already_is_recovered_again(others_die: bool) -> None:
    """A server carries out what was sent to it, also when the client is gone."""
    driver, errands = MemoryDriver(), Errands()
    one = undertaker(driver, errands)

    def is_recovered() -> bool:
        if others_die:
            one.settle(estate(lane(asking="another")))
        return not driver.held("late")

    one.settle(estate(lane(asking="late")))
    pause(10, until=lambda: not one.estates)
    taken(driver, "late")
    pause(5, until=is_recovered)

    (popped,) = driver.pop(["default"], "next", Room()).reservations
    assert (popped.envelope.id, popped.attempt) == ("late", 1)


def test_a_receiver_that_does_not_return_keeps_nothing_else_from_being_settled() -> None:
    driver, errands = MemoryDriver(), Errands()
    is_over = threading.Event()
    first, second = taken(driver, "a"), taken(driver, "b")
    app = object()

    def hang(sender: object, **facts: object) -> None:
        is_over.wait(30)

    with job_failed.connected_to(hang, app):
        one = Undertaker(driver, Events(app), defaults=WorkerDefaults(tries=1), errand=errands.add)
        one.start()
        one.settle(left(first, token="a"))
        assert errands.came.wait(10)
        errands.came.clear()
        one.settle(left(second, token="b"))
        was_settled = errands.came.wait(10)
        is_over.set()

    assert was_settled
    assert errands == ["a", "b"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_what_one_pop_has_brought_several_lanes_goes_back_only_as_far_as_none_of_them_has_begun_it(
    order: tuple[int, ...],
) -> None:
    """One lane has begun its job, one has not, one has ended its own, and the answer has not reached the last one."""
    driver, errands = MemoryDriver(), Errands()
    driver.push([Push(Envelope(job_id, "demo", "default", body="{}")) for job_id in "abcd"])
    room = Room(4, means={"demo": 0.0})
    begun, waiting, done, _ = driver.pop(["default"], "one", room).reservations
    states = [(begun, State.STARTED), (waiting, State.HELD), (done, State.DONE)]
    lanes = [
        lane(Held(of.envelope.id, of.receipt, "default", "demo", of.attempt, state), number=number, token="one")
        for number, (of, state) in enumerate(states)
    ]
    unheard = View(3, 1, "one", "before", clock.monotonic())

    one = undertaker(driver, errands)
    one.settle(estate(unheard, *(lanes[number] for number in order)))
    pause(10, until=lambda: not one.estates)

    assert errands == ["a"]
    assert driver.count_failed() == 1
    assert driver.size("default") == Sizes(ready=2, delayed=0, reserved=0)
    back = driver.pop(["default"], "next", room).reservations
    assert [(of.envelope.id, of.counters.attempts) for of in back] == [("b", 1), ("d", 1)]
