"""State machines that drive a driver through the port alone, in any order, beside a model of what must be true."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from flask_jobs import clock
from flask_jobs.envelope import Ack, After, Envelope, Key, Reservation, Ties
from flask_jobs.errors import KeyHeld
from flask_jobs.ids import new_id
from flask_jobs.pushes import BatchPush, Push, Role
from flask_jobs.testing.contract.support import fail, pop, release

CALLBACKS = (Role.THEN, Role.CATCH, Role.FINALLY)

LEASE = 60.0
BOUND = 5.0

Roll = Callable[[list[Push]], None]
"""Pushes within a transaction of the app that is rolled back."""


@dataclass
class Stage:
    """An empty store for one run of a machine: its driver, its clock that stands still, and rollbacks if it has any."""

    driver: object
    advance: Callable[[float], None]
    roll_back: Roll | None = None
    close: Callable[[], None] = lambda: None


@dataclass
class Place:
    """Where the model thinks a job is."""

    push: Push
    reservation: Reservation | None = None
    failed: bool = False
    again: bool = False


class Machine(RuleBasedStateMachine):
    """What both machines do with jobs: each is popped alone, ends in every way, and may outlive its lease."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        self.driver = stage.driver
        self.places: dict[str, Place] = {}
        self.late: list[Reservation] = []

    def teardown(self) -> None:
        self.stage.close()

    def one(self, data, found: list[str]) -> str:
        return data.draw(st.sampled_from(found))

    def ids(self, *, waiting: bool = False, running: bool = False, failed: bool = False) -> list[str]:
        """The jobs in these places."""
        return [
            id_
            for id_, place in self.places.items()
            if (failed if place.failed else running if place.reservation is not None else waiting)
        ]

    def ended(self, place: Place, how: str) -> None:
        """A job has ended: done, skipped, removed, failed for good, or forgotten after that."""

    @rule()
    def pop(self):
        for reservation in pop(self.driver).reservations:
            self.popped(reservation)

    def popped(self, reservation):
        place = self.places[reservation.envelope.id]
        assert reservation.envelope == place.push.envelope
        assert not place.failed
        if place.reservation is not None:
            self.late.append(place.reservation)
        place.reservation = reservation

    @precondition(lambda self: self.ids(running=True))
    @rule(data=st.data(), how=st.sampled_from(["done", "skipped", "failed", "released"]))
    def settle(self, data, how):
        self.settled(self.one(data, self.ids(running=True)), how)

    def settled(self, id_, how):
        place = self.places[id_]
        settlement = {
            "done": Ack(place.reservation),
            "skipped": Ack(place.reservation, skipped=True),
            "failed": fail(place.reservation),
            "released": release(place.reservation, After(0.0)),
        }[how]
        for _ in range(2):  # whoever did not get the answer repeats it
            assert self.driver.settle([settlement]).stale == ()
        place.reservation = None
        place.failed = how == "failed"
        if how in ("done", "skipped"):
            del self.places[id_]
        if how != "released":
            self.ended(place, how)

    @precondition(lambda self: self.ids(waiting=True))
    @rule()
    def fail_the_next(self):
        (reservation,) = pop(self.driver).reservations
        self.popped(reservation)
        self.settled(reservation.envelope.id, "failed")

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def settle_late(self, data):
        settlement = Ack(data.draw(st.sampled_from(self.late)))
        assert self.driver.settle([settlement]).stale == (settlement,)

    @precondition(lambda self: self.ids(running=True))
    @rule()
    def let_leases_run_out(self):
        self.stage.advance(LEASE + 1.0)
        while reservations := pop(self.driver).reservations:
            self.popped(reservations[0])

    @precondition(lambda self: self.ids(waiting=True))
    @rule(data=st.data())
    def cancel(self, data):
        id_ = self.one(data, self.ids(waiting=True))
        assert self.driver.cancel(id_)
        self.ended(self.places.pop(id_), "removed")

    @precondition(lambda self: len(self.ids(waiting=True)) > 2)
    @rule()
    def clear(self):
        waiting = self.ids(waiting=True)
        assert self.driver.clear("default") == len(waiting)
        for id_ in waiting:
            self.ended(self.places.pop(id_), "removed")

    @precondition(lambda self: self.ids(failed=True))
    @rule(data=st.data())
    def forget(self, data):
        id_ = self.one(data, self.ids(failed=True))
        assert self.driver.forget(id_)
        self.ended(self.places.pop(id_), "forgotten")

    @precondition(lambda self: len(self.ids(failed=True)) > 2)
    @rule()
    def flush(self):
        failed = self.ids(failed=True)
        assert self.driver.flush() == len(failed)
        for id_ in failed:
            self.ended(self.places.pop(id_), "forgotten")

    def retried(self, old: str, new: str) -> None:
        """A failed job waits again under a new id."""
        place = self.places.pop(old)
        envelope = place.push.envelope
        again = Envelope(new, envelope.name, envelope.queue, envelope.body, old, envelope.ties)
        self.places[new] = Place(Push(again), again=True)

    @invariant()
    def every_job_is_where_the_model_has_it(self):
        sizes = self.driver.size("default")
        assert sizes.ready + sizes.delayed == len(self.ids(waiting=True))
        assert sizes.reserved == len(self.ids(running=True))
        assert self.driver.count_failed() == len(self.ids(failed=True))


class KeysMachine(Machine):
    """Unique keys: never two holders, and never a key without a living job."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.holds: dict[str, tuple[str, float]] = {}

    def a_job(self, text, *, until_processing=False, seconds=None):
        key = Key(f"{text:-<64}", text, until_processing, seconds)
        return Push(Envelope(new_id(), "shop.send-invoice", "default", "{}", ties=Ties(key=key)))

    def holder(self, digest):
        job_id, until = self.holds.get(digest, (None, 0.0))
        return job_id if until > clock.now() else None

    def hold(self, push):
        key = push.envelope.ties.key
        self.holds[key.digest] = push.envelope.id, float("inf") if key.seconds is None else clock.now() + key.seconds

    def ended(self, place, how):
        id_ = place.push.envelope.id
        self.holds = {digest: hold for digest, hold in self.holds.items() if hold[0] != id_}

    texts = st.sampled_from("ab")

    @rule(wanted=st.lists(st.tuples(texts, st.booleans(), st.sampled_from([None, BOUND])), min_size=1, max_size=3))
    def push(self, wanted):
        pushes = [self.a_job(text, until_processing=until, seconds=seconds) for text, until, seconds in wanted]
        for push, answer in zip(pushes, self.driver.push(pushes), strict=True):
            holder = self.holder(push.envelope.ties.key.digest)
            assert (answer.id, answer.stored, answer.holder) == (push.envelope.id, holder is None, holder)
            if holder is None:
                self.places[push.envelope.id] = Place(push)
                self.hold(push)

    @precondition(lambda self: self.places)
    @rule(data=st.data())
    def push_again(self, data):
        push = self.places[self.one(data, list(self.places))].push
        (answer,) = self.driver.push([push])
        assert (answer.stored, answer.holder) == (False, None)

    @precondition(lambda self: self.stage.roll_back is not None)
    @rule(text=texts)
    def push_and_roll_back(self, text):
        self.stage.roll_back([self.a_job(text)])

    @precondition(lambda self: self.ids(running=True))
    @rule(data=st.data())
    def give_back(self, data):
        id_ = self.one(data, self.ids(running=True))
        assert self.driver.give_back_key(self.places[id_].reservation)
        self.ended(self.places[id_], "given back")

    @precondition(lambda self: self.late)
    @rule(data=st.data())
    def give_back_late(self, data):
        assert not self.driver.give_back_key(data.draw(st.sampled_from(self.late)))

    @rule()
    def let_bounds_run_out(self):
        self.stage.advance(BOUND + 1.0)

    @precondition(lambda self: self.ids(failed=True))
    @rule(data=st.data())
    def retry(self, data):
        old, new = self.one(data, self.ids(failed=True)), new_id()
        holder = self.holder(self.places[old].push.envelope.ties.key.digest)
        if holder is not None:
            with pytest.raises(KeyHeld) as refused:
                self.driver.retry(old, new)
            assert refused.value.holder == holder
            return
        assert self.driver.retry(old, new)
        self.retried(old, new)
        self.hold(self.places[new].push)

    @rule(limit=st.integers(1, 3))
    def retry_many(self, limit):
        upto = self.driver.newest_failed()
        while retried := self.driver.retry_many(new_id, upto=upto, limit=limit):
            for old, new in retried:
                assert self.holder(self.places[old].push.envelope.ties.key.digest) is None
                self.retried(old, new)
                self.hold(self.places[new].push)
        for id_ in self.ids(failed=True):
            assert self.holder(self.places[id_].push.envelope.ties.key.digest) is not None

    @invariant()
    def keys_are_held_by_living_jobs(self):
        for text in "ab":
            digest = f"{text:-<64}"
            holder = self.driver.holder(digest)
            assert holder == self.holder(digest)
            assert holder is None or self.driver.find(holder) is not None


@dataclass
class Tally:
    """What the model knows of a batch; `due` are the callbacks that have become due at some time."""

    plan: BatchPush
    counts: Counter = field(default_factory=Counter)
    cancelled: bool = False
    finished: bool = False
    due: set[Role] = field(default_factory=set)

    def reckon(self):
        """Note what has become due."""
        if self.counts["failed"]:
            self.due.add(Role.CATCH)
        if self.counts["pending"] == 0:
            self.finished = True
            self.due.add(Role.FINALLY)
            if not self.counts["failed"] and not self.cancelled:
                self.due.add(Role.THEN)


class BatchesMachine(Machine):
    """Batches: the counters always add up, and each callback is stored once, and no sooner than it is due."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        self.tallies: dict[str, Tally] = {}
        self.ran: list[tuple[str, str]] = []

    def a_member(self, batch_id):
        return Push(Envelope(new_id(), "shop.send-invoice", "default", "{}", ties=Ties(batch=batch_id)))

    def ended(self, place, how):
        tally = self.tallies.get(place.push.envelope.ties.batch)
        if tally is None:  # it was pruned, and what was failed or retried of it has nobody to tell
            return
        was_failed = place.again or how == "forgotten"
        tally.counts["failed" if was_failed else "pending"] -= 1
        tally.counts[how if how in ("done", "failed") else "skipped"] += 1
        if how == "failed" and not place.again and not tally.plan.allow_failures:
            tally.cancelled = True
        tally.reckon()

    @rule(size=st.integers(0, 3), allow_failures=st.booleans())
    def push_batch(self, size, allow_failures):
        id_ = new_id()
        callbacks = {
            role: Push(Envelope(new_id(), role.value, "callbacks", "{}", ties=Ties(batch=id_, is_callback=True)))
            for role in CALLBACKS
        }
        plan = BatchPush(id_, tuple(self.a_member(id_) for _ in range(size)), "statements", callbacks, allow_failures)
        for stored in (True, False):
            answers = self.driver.push_batch(plan)
            assert [answer.stored for answer in answers] == [stored] * size
        self.places |= {push.envelope.id: Place(push) for push in plan.members}
        self.tallies[id_] = Tally(plan, Counter(pending=size))
        self.tallies[id_].reckon()

    @precondition(lambda self: self.tallies)
    @rule(data=st.data(), amount=st.integers(1, 2))
    def add(self, data, amount):
        tally = self.tallies[self.one(data, list(self.tallies))]
        members = [self.a_member(tally.plan.id) for _ in range(amount)]
        answers = self.driver.add_to_batch(tally.plan.id, members)
        assert (answers is None) == tally.finished
        if answers is not None:
            self.places |= {push.envelope.id: Place(push) for push in members}
            tally.counts["pending"] += amount

    @precondition(lambda self: self.tallies)
    @rule(data=st.data())
    def cancel_batch(self, data):
        tally = self.tallies[self.one(data, list(self.tallies))]
        assert self.driver.cancel_batch(tally.plan.id) == (not tally.cancelled and not tally.finished)
        tally.cancelled = tally.cancelled or not tally.finished

    @precondition(lambda self: self.ids(failed=True))
    @rule(data=st.data())
    def retry(self, data):
        old, new = self.one(data, self.ids(failed=True)), new_id()
        assert self.driver.retry(old, new)
        self.retried(old, new)

    @rule()
    def run_a_callback(self):
        for reservation in pop(self.driver, "callbacks").reservations:
            assert self.driver.settle([Ack(reservation)]).stale == ()
            self.ran.append((reservation.envelope.ties.batch, reservation.envelope.name))

    @rule()
    def prune(self):
        finished = [id_ for id_, tally in self.tallies.items() if tally.finished and not tally.counts["failed"]]
        over = [id_ for id_ in finished if not self.waiting_for(id_)]
        assert self.driver.prune_batches(older_than=0.0) == len(over)
        for id_ in over:
            assert self.driver.batch(id_) is None
            del self.tallies[id_]

    def waiting_for(self, batch_id):
        """The names of the batch's callbacks that are stored and have not run."""
        return [job.envelope.name for job in self.driver.jobs("callbacks") if job.envelope.ties.batch == batch_id]

    @invariant()
    def counters_add_up(self):
        for id_, tally in self.tallies.items():
            stored = self.driver.batch(id_)
            counts = {name: getattr(stored, name) for name in ("pending", "done", "failed", "skipped")}
            assert counts == {name: tally.counts[name] for name in counts}
            assert stored.total == sum(counts.values())
            assert (stored.cancelled_at is not None, stored.finished_at is not None) == (
                tally.cancelled,
                tally.finished,
            )

    @invariant()
    def each_callback_that_is_due_is_stored_once(self):
        for id_, tally in self.tallies.items():
            waiting = self.waiting_for(id_)
            ran = [name for batch_id, name in self.ran if batch_id == id_]
            assert sorted([*waiting, *ran]) == sorted(role.value for role in tally.due)
            assert self.driver.batch(id_).callbacks == len(waiting)
