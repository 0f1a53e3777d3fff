"""What operators may rely on: they see what is stored, and never take a job from under a worker."""

from __future__ import annotations

import pytest

from ...driver import PORTION, Clearable, Driver, Inspectable, Pausable, TracksProgress
from ...envelope import Ack, After, At, Counters, Progress
from ...errors import InvalidArgument
from ...pushes import Push
from ...stored import Sizes, State, StoredJob
from .support import Advance, Contract, envelope, pop, pop_ids, pop_one, push, release, roomy
from .waiting import waited


class _Tracked(TracksProgress, Inspectable):
    """What is tracked can be seen only where one can look."""


class TracksProgressContract(Contract):
    """The progress of running jobs."""

    capability = TracksProgress

    def test_the_latest_progress_stands_beside_the_job(self, driver: _Tracked, second: _Tracked) -> None:
        (job_id,) = push(driver)
        reservation = pop_one(driver)

        answers = [driver.note_progress(reservation, Progress(done)) for done in (1, 2)]
        answers.append(driver.note_progress(reservation, Progress(3.5, 10, "half 漢")))

        assert answers == [True, True, True]
        assert _found(second, job_id).progress == Progress(3.5, 10, "half 漢")

    def test_progress_of_a_lost_delivery_is_not_stored(
        self, driver: _Tracked, second: _Tracked, advance: Advance
    ) -> None:
        (job_id,) = push(driver)
        late = pop_one(driver)
        advance(self.lease + 0.01)
        pop_one(second)

        assert not driver.note_progress(late, Progress(9))
        assert _found(driver, job_id).progress is None

    def test_a_new_attempt_begins_without_the_progress_of_the_last(self, driver: _Tracked) -> None:
        (job_id,) = push(driver)
        reservation = pop_one(driver)
        driver.note_progress(reservation, Progress(9))
        driver.settle([release(reservation, After(0.0))])

        assert _found(driver, job_id).progress is None


class InspectableContract(Contract):
    """Looking, and taking out single jobs."""

    capability = Inspectable

    def test_the_queues_that_hold_a_job_in_any_state_are_named(self, driver: Inspectable) -> None:
        push(driver, queue="c-reserved")
        pop_one(driver, "c-reserved")
        push(driver, 3, queue="b-delayed", due=After(self.delay))
        push(driver, 3, queue="a-ready")
        push(driver, queue="B")
        push(driver, queue="done")
        driver.settle([Ack(pop_one(driver, "done"))])

        assert driver.queues() == ["B", "a-ready", "b-delayed", "c-reserved"]

    def test_a_job_is_found_wherever_it_waits(self, driver: Inspectable, advance: Advance) -> None:
        (reserved,) = push(driver)
        reservation = pop_one(driver)
        (ready,), (delayed,) = push(driver), push(driver, due=After(self.delay))

        found = {id_: _found(driver, id_) for id_ in (ready, delayed, reserved)}

        states = {id_: job.state for id_, job in found.items()}
        assert states == {ready: State.READY, delayed: State.DELAYED, reserved: State.RESERVED}
        assert found[reserved].envelope == reservation.envelope
        assert found[reserved].counters == Counters(attempts=1)
        assert found[reserved].leased_until == pytest.approx(reservation.now + self.lease, abs=0.01)
        assert found[delayed].due == pytest.approx(reservation.now + self.delay, abs=self.delay / 2)
        advance(self.delay + 0.01)
        assert _found(driver, delayed).state is State.READY

    def test_what_is_not_stored_is_not_found(self, driver: Inspectable) -> None:
        push(driver)
        driver.settle([Ack(reservation := pop_one(driver))])

        assert driver.find(reservation.envelope.id) is None
        assert driver.find(envelope().id) is None

    def test_a_queue_is_shown_in_pages_by_id(self, driver: Inspectable) -> None:
        ids = sorted(push(driver, 4) + push(driver, 3, due=After(self.delay)))
        push(driver, 2, queue="other")

        pages: list[list[str]] = []
        after = None
        while page := driver.jobs("default", after=after, limit=3):
            pages.append([job.envelope.id for job in page])
            after = pages[-1][-1]

        assert pages == [ids[:3], ids[3:6], ids[6:]]

    def test_a_page_may_show_one_state_alone(self, driver: Inspectable) -> None:
        reserved = push(driver)
        pop_one(driver)
        ready = push(driver, 2) + push(driver, due=At(5.0))
        delayed = push(driver, 2, due=After(self.delay))

        shown = {state: [job.envelope.id for job in driver.jobs("default", state=state)] for state in State}

        assert shown == {State.READY: sorted(ready), State.DELAYED: sorted(delayed), State.RESERVED: reserved}

    @pytest.mark.parametrize("delayed", [False, True])
    def test_a_waiting_job_can_be_cancelled_and_its_id_stays_known(self, driver: Inspectable, delayed: bool) -> None:
        sent = Push(envelope(), due=After(self.delay if delayed else 0.0))
        driver.push([sent])

        assert driver.cancel(sent.envelope.id)
        assert not driver.cancel(sent.envelope.id)
        assert driver.size("default") == Sizes()
        assert not driver.push([sent])[0].stored

    def test_a_job_with_a_worker_cannot_be_cancelled(self, driver: Inspectable) -> None:
        push(driver)
        reservation = pop_one(driver)

        assert not driver.cancel(reservation.envelope.id)
        assert driver.settle([Ack(reservation)]).stale == ()


class ClearableContract(Contract):
    """Emptying queues."""

    capability = Clearable

    def test_clearing_removes_what_waits_and_nothing_else(self, driver: Clearable) -> None:
        push(driver)
        reservation = pop_one(driver)
        push(driver, 3)
        push(driver, 2, due=After(self.delay))
        push(driver, 2, queue="other")

        assert driver.clear("default") == 5
        assert driver.clear("default") == 0
        assert driver.size("default") == Sizes(reserved=1)
        assert driver.size("other") == Sizes(ready=2)
        assert driver.settle([Ack(reservation)]).stale == ()

    def test_clearing_is_bounded(self, driver: Clearable) -> None:
        push(driver, 7)

        assert [driver.clear("default", limit=3) for _ in range(4)] == [3, 3, 1, 0]

    def test_clearing_takes_no_more_than_a_portion_whatever_its_limit(self, driver: Clearable) -> None:
        push(driver, PORTION + 7)

        assert [driver.clear("default", limit=10 * PORTION) for _ in range(3)] == [PORTION, 7, 0]

    def test_the_ids_of_cleared_jobs_stay_known(self, driver: Clearable) -> None:
        sent = Push(envelope())
        driver.push([sent])
        driver.clear("default")

        assert not driver.push([sent])[0].stored


class PausableContract(Contract):
    """Holding queues back."""

    capability = Pausable

    def test_a_paused_queue_takes_jobs_and_gives_none(self, driver: Pausable, second: Driver) -> None:
        ids = push(driver)
        driver.pause("default")
        ids += push(second)

        held = pop(second, room=roomy()).reservations
        driver.resume("default")

        assert held == ()
        assert pop_ids(second, amount=2) == ids

    def test_other_queues_go_on(self, driver: Pausable) -> None:
        push(driver)
        ids = push(driver, queue="other")
        driver.pause("default")

        assert pop_ids(driver, "default", "other", amount=2) == ids

    def test_a_paused_queue_is_held_back_in_an_exchange_too(self, driver: Pausable) -> None:
        push(driver, 2)
        reservation = pop_one(driver)
        driver.pause("default")

        exchange = driver.exchange([Ack(reservation)], ["default"], "token", roomy())

        assert (exchange.stale, exchange.popped.reservations) == ((), ())
        assert driver.size("default") == Sizes(ready=1)

    def test_a_paused_queue_takes_in_no_lease_and_wakes_nobody(self, driver: Pausable, advance: Advance) -> None:
        push(driver)
        pop_one(driver)
        push(driver, due=After(self.delay))
        push(driver)
        driver.pause("default")

        popped = pop(driver)
        advance(self.lease + 0.01)

        assert (popped.reservations, popped.next_due) == ((), None)
        assert pop(driver).reclaimed == ()
        assert waited(driver, timeout=0.05) >= 0.05

    def test_a_pause_may_end_by_itself(self, driver: Pausable, advance: Advance) -> None:
        ids = push(driver)
        driver.pause("default", seconds=self.delay)

        held = pop(driver)
        advance(self.delay + 0.01)

        assert held.reservations == ()
        assert held.next_due == pytest.approx(held.now + self.delay, abs=self.delay / 2)
        assert pop_ids(driver, amount=1) == ids
        assert driver.paused() == {}

    def test_the_paused_queues_are_named_with_the_end_of_their_pause(self, driver: Pausable, second: Pausable) -> None:
        now = pop(driver).now
        driver.pause("forever")
        driver.pause("default", seconds=1_000.0)
        driver.pause("default", seconds=2_000.0)

        paused = second.paused()

        assert paused == {"forever": None, "default": pytest.approx(now + 2_000.0, abs=5.0)}

    def test_resuming_says_whether_the_queue_was_paused(self, driver: Pausable, advance: Advance) -> None:
        driver.pause("default")
        driver.pause("brief", seconds=self.delay)
        advance(self.delay + 0.01)

        assert (driver.resume("default"), driver.resume("default"), driver.resume("brief")) == (True, False, False)

    def test_a_pause_of_no_real_length_is_refused(self, driver: Pausable) -> None:
        with pytest.raises(InvalidArgument):
            driver.pause("default", seconds=-1.0)
        with pytest.raises(InvalidArgument):
            driver.pause("no such name")

        assert driver.paused() == {}


def _found(driver: Inspectable, job_id: str) -> StoredJob:
    stored = driver.find(job_id)
    assert stored is not None
    return stored
