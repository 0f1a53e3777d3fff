"""What locks, limits and counts of a store promise to whoever runs beside each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

import pytest

from ... import clock, ids, restarts
from ...driver import Clearable, Inspectable, KeepsLocks, Renewable, StoresFailedJobs
from ...envelope import Ack, After, Room, Settlement
from ...errors import InvalidArgument
from ...store import Granted, Held, Holder, Store, Taken, Turn
from ...turns import Quota
from .support import Advance, Contract, fail, id_list, pop_one, push, release

T = TypeVar("T")

THREADS = 8

_ONE = Room(limit=1)


class StoreContract:
    """Overridden by the store's own tests: three fixtures, and traits where the defaults do not fit."""

    hold: ClassVar[float] = 10.0
    """Seconds that a lock is held for."""

    window: ClassVar[float] = 10.0
    """Seconds of a limit's window. Small where `advance` has to sleep, but long enough for a handful of calls."""

    @pytest.fixture
    def store(self) -> Store:
        """An empty store."""
        raise NotImplementedError(f"{type(self).__name__} must override the fixture `store`.")

    @pytest.fixture
    def other(self) -> Store:
        """The same store, as another process sees it. May be the same object if the store is in memory."""
        raise NotImplementedError(f"{type(self).__name__} must override the fixture `other`.")

    @pytest.fixture
    def advance(self) -> Advance:
        """A function that lets so many seconds pass by the store's clock: moves a test clock, or sleeps."""
        raise NotImplementedError(f"{type(self).__name__} must override the fixture `advance`.")

    def limit(self, amount: int, *, key: str = "emails", length: float | None = None, span: int = 1) -> Quota:
        """A limit of so many starts in a window."""
        return Quota(key, amount, self.window if length is None else length, span)

    # Locks

    def test_a_lock_is_held_by_one_and_the_other_is_told_by_which_job(self, store: Store, other: Store) -> None:
        first, second = holder(), holder()

        answers = [one.acquire("k", who, seconds=self.hold) for one, who in ((store, first), (other, second))]

        assert answers[0] == Held()
        assert isinstance(answers[1], Taken)
        assert answers[1].job_id == first.job_id
        assert abs(answers[1].until - clock.now() - self.hold) < self.hold / 2

    def test_whoever_holds_a_lock_may_ask_for_it_again(self, store: Store, other: Store) -> None:
        first = holder()

        answers = [one.acquire("k", first, seconds=self.hold) for one in (store, other)]

        assert answers == [Held(), Held()]

    def test_a_lock_that_is_let_go_of_is_free(self, store: Store, other: Store) -> None:
        first, second = holder(), holder()
        store.acquire("k", first, seconds=self.hold)

        released = store.release("k", first)

        assert released
        assert other.acquire("k", second, seconds=self.hold) == Held()

    def test_nobody_lets_go_of_a_lock_that_is_anothers(self, store: Store, other: Store) -> None:
        store.acquire("k", holder(), seconds=self.hold)

        released = other.release("k", holder())

        assert not released
        assert isinstance(other.acquire("k", holder(), seconds=self.hold), Taken)

    def test_two_deliveries_of_one_job_are_two_holders(self, store: Store) -> None:
        first = holder()
        store.acquire("k", first, seconds=self.hold)
        again = Holder(first.job_id, "another receipt")

        assert isinstance(store.acquire("k", again, seconds=self.hold), Taken)
        assert not store.release("k", again)

    def test_a_lock_ends_by_itself_and_its_late_holder_frees_nothing(
        self, store: Store, other: Store, advance: Advance
    ) -> None:
        late, successor = holder(), holder()
        store.acquire("k", late, seconds=self.hold)
        advance(self.hold + 0.01)

        taken_over = other.acquire("k", successor, seconds=self.hold)
        released = store.release("k", late)

        assert taken_over == Held()
        assert not released
        assert not store.extend("k", late, seconds=self.hold)
        assert isinstance(store.acquire("k", late, seconds=self.hold), Taken)

    def test_a_lock_that_is_extended_is_held_longer(self, store: Store, other: Store, advance: Advance) -> None:
        first = holder()
        store.acquire("k", first, seconds=self.hold)
        advance(0.6 * self.hold)

        extended = store.extend("k", first, seconds=self.hold)
        advance(0.6 * self.hold)

        assert extended
        assert isinstance(other.acquire("k", holder(), seconds=self.hold), Taken)

    def test_extending_revives_nothing(self, store: Store, other: Store, advance: Advance) -> None:
        late = holder()
        store.acquire("k", late, seconds=self.hold)
        advance(self.hold + 0.01)

        assert not store.extend("k", late, seconds=self.hold)
        assert other.acquire("k", holder(), seconds=self.hold) == Held()

    def test_a_lock_of_several_places_is_held_by_so_many(self, store: Store, other: Store) -> None:
        holders = [holder() for _ in range(4)]

        answers = [other.acquire("k", one, places=3, seconds=self.hold) for one in holders]
        store.release("k", holders[1])

        assert answers[:3] == [Held()] * 3
        assert isinstance(answers[3], Taken)
        assert answers[3].job_id == holders[0].job_id
        assert other.acquire("k", holders[3], places=3, seconds=self.hold) == Held()
        assert isinstance(other.acquire("k", holder(), places=3, seconds=self.hold), Taken)

    @pytest.mark.parametrize(
        ("key", "like"),
        [
            ("invoice", "Invoice"),
            ("invoice", "invoice "),
            ("ä", "a"),
            ("Straße", "Strasse"),
            ("漢字", "漢"),
            ("x" * 300 + "1", "x" * 300 + "2"),
            ("a\x00", "a"),
            ("a%", "a_"),
        ],
    )
    def test_keys_compare_exactly(self, store: Store, other: Store, key: str, like: str) -> None:
        store.acquire(key, holder(), seconds=self.hold)

        assert isinstance(other.acquire(key, holder(), seconds=self.hold), Taken)
        assert other.acquire(like, holder(), seconds=self.hold) == Held()

    def test_a_key_is_some_text(self, store: Store) -> None:
        with pytest.raises(InvalidArgument, match="text of one character or more"):
            store.acquire("", holder(), seconds=self.hold)

    @pytest.mark.parametrize("places", [1, 3])
    def test_of_all_who_want_a_lock_at_once_so_many_get_it(self, store: Store, other: Store, places: int) -> None:
        def ask(one: Store) -> list[Held | Taken]:
            return [one.acquire(key, holder(), places=places, seconds=60) for key in "abcdef"]

        answers = at_once(store, other, ask)

        assert [of_key.count(Held()) for of_key in zip(*answers, strict=True)] == [places] * 6

    def test_a_lock_that_changes_hands_all_the_time_never_has_two_holders(self, store: Store, other: Store) -> None:
        inside: list[int] = []

        def come_and_go(one: Store) -> int:
            entered = 0
            for _ in range(10):
                mine = holder()
                if one.acquire("k", mine, seconds=60) == Held():
                    inside.append(1)
                    assert len(inside) == 1
                    inside.pop()
                    entered += one.release("k", mine)
            return entered

        assert sum(at_once(store, other, come_and_go)) > 0
        assert store.acquire("k", holder(), seconds=self.hold) == Held()

    # Limits

    def test_a_limit_lets_through_its_amount_and_then_books_turns_in_the_windows_that_follow(
        self, store: Store, other: Store, advance: Advance
    ) -> None:
        limit = self.limit(2)
        begin = self.wait_for_a_window(advance)

        answers = [book(one, limit) for _ in range(4) for one in (store, other)]

        assert all(isinstance(answer, Granted) for answer in answers[:2])
        turns = [answer.at for answer in answers if isinstance(answer, Turn)]
        assert turns == pytest.approx([begin + self.window * number for number in (1, 1, 2, 2, 3, 3)])
        waits = [answer.at - answer.wait for answer in answers if isinstance(answer, Turn)]
        assert all(begin <= now < begin + self.window for now in waits)

    def test_a_job_is_told_its_turn_again_until_it_comes_and_then_runs_once(
        self, store: Store, other: Store, advance: Advance
    ) -> None:
        limit = self.limit(1)
        self.wait_for_a_window(advance)
        book(store, limit)
        turns = [book(one, limit, owner=OWNER) for one in (store, other, store)]
        book(store, limit)
        self.wait_for_a_window(advance)

        in_its_turn = book(other, limit, owner=OWNER)
        after = book(store, limit, owner=OWNER)

        assert len({turn.at for turn in turns if isinstance(turn, Turn)}) == 1
        assert isinstance(in_its_turn, Granted)
        assert isinstance(after, Turn)
        assert after.wait > self.window

    def test_nobody_else_takes_a_turn_that_is_booked(self, store: Store, other: Store, advance: Advance) -> None:
        limit = self.limit(1)
        self.wait_for_a_window(advance)
        book(store, limit)
        book(store, limit, owner=OWNER)
        self.wait_for_a_window(advance)

        assert isinstance(book(other, limit), Turn)
        assert isinstance(book(store, limit, owner=OWNER), Granted)

    def test_a_job_that_misses_its_turn_is_tested_anew(self, store: Store, advance: Advance) -> None:
        limit = self.limit(1)
        self.wait_for_a_window(advance)
        book(store, limit)
        book(store, limit, owner=OWNER)
        self.wait_for_a_window(advance)
        self.wait_for_a_window(advance)

        late = book(store, limit, owner=OWNER)

        assert isinstance(late, Granted)
        assert isinstance(book(store, limit), Turn)

    def test_limits_are_tested_together_before_any_is_charged(
        self, store: Store, other: Store, advance: Advance
    ) -> None:
        wide, narrow = self.limit(2, key="wide"), self.limit(1, key="narrow")
        self.wait_for_a_window(advance)
        book(store, narrow)

        both = [book(other, wide, narrow, ahead=False) for _ in range(3)]

        assert all(isinstance(answer, Turn) and answer.blocker == 1 for answer in both)
        assert isinstance(book(store, wide), Granted)
        assert isinstance(book(store, wide), Granted)
        assert isinstance(book(store, wide), Turn)

    def test_a_turn_is_booked_where_all_limits_allow_it(self, store: Store, other: Store, advance: Advance) -> None:
        short, long = self.limit(1, key="short"), self.limit(2, key="long", length=4 * self.window)
        begin = self.wait_for_a_window(advance, length=4 * self.window)

        answers = [book(one, short, long) for one in (store, other, store, other, store)]

        assert isinstance(answers[0], Granted)
        turns = [answer.at for answer in answers if isinstance(answer, Turn)]
        assert turns == pytest.approx([begin + self.window * number for number in (1, 4, 5, 8)])
        assert isinstance(book(store, short, owner=OWNER), Turn)
        assert book(store, short, owner=OWNER).at == pytest.approx(begin + 2 * self.window)  # type: ignore[union-attr]

    def test_a_turn_that_is_given_back_is_the_next_ones(self, store: Store, other: Store, advance: Advance) -> None:
        limit = self.limit(1)
        self.wait_for_a_window(advance)
        book(store, limit)
        first = book(store, limit, owner=OWNER)
        book(store, limit)

        given_back = [store.give_back(OWNER), other.give_back(OWNER)]

        assert given_back == [True, False]
        next_one = book(other, limit)
        assert isinstance(first, Turn)
        assert isinstance(next_one, Turn)
        assert next_one.at == first.at

    def test_a_start_that_was_granted_and_not_used_can_be_given_back(
        self, store: Store, other: Store, advance: Advance
    ) -> None:
        limit = self.limit(1, key="emails of 漢")
        self.wait_for_a_window(advance)
        granted = book(store, limit, owner=OWNER)
        assert isinstance(granted, Granted)

        other_turn = book(store, limit, owner=OWNER, name="another")
        store.give_back(None, granted.places)

        assert isinstance(book(other, limit), Granted)
        assert isinstance(book(other, limit), Turn)
        assert book(other, limit, owner=OWNER, name="another").at == other_turn.at  # type: ignore[union-attr]

    def test_one_job_may_have_turns_of_several_limiters(self, store: Store, advance: Advance) -> None:
        limits = [self.limit(1, key=key) for key in ("a", "b")]
        self.wait_for_a_window(advance)
        for limit in limits:
            book(store, limit)
            book(store, limit, owner=OWNER, name=limit.key)
        self.wait_for_a_window(advance)

        answers = [book(store, limit, owner=OWNER, name=limit.key) for limit in limits]

        assert all(isinstance(answer, Granted) for answer in answers)

    def test_a_limit_that_is_raised_has_room_at_once(self, store: Store, other: Store, advance: Advance) -> None:
        self.wait_for_a_window(advance)
        for _ in range(4):
            book(store, self.limit(1))

        assert isinstance(book(other, self.limit(2)), Granted)
        assert isinstance(book(other, self.limit(2)), Turn)

    def test_a_rolling_limit_is_kept_in_every_span(self, store: Store, other: Store, advance: Advance) -> None:
        amount, slices = 3, 4
        limit = self.limit(amount, length=self.window / slices, span=slices + 1)
        granted: list[float] = []
        waiting = [ids.new_id() for _ in range(9)]

        for step in range(40):
            for owner in list(waiting):
                one = (store, other)[step % 2]
                before = clock.now()
                if isinstance(book(one, limit, owner=owner), Granted):
                    granted.append(before)
                    waiting.remove(owner)
            if not waiting:
                break
            advance(self.window / slices / 2)

        assert not waiting
        assert all(
            later - earlier > 0.95 * self.window for earlier, later in zip(granted, granted[amount:], strict=False)
        )

    def test_of_all_who_ask_at_once_no_window_gets_more_than_its_amount(
        self, store: Store, other: Store, advance: Advance
    ) -> None:
        limits = [self.limit(3), self.limit(2, key="those to ä")]
        begin = self.wait_for_a_window(advance)

        def ask(one: Store) -> list[Granted | Turn]:
            return [book(one, *limits) for _ in range(4)]

        answers = [answer for some in at_once(store, other, ask) for answer in some]
        windows = Counter(
            round((answer.at - begin) / self.window) if isinstance(answer, Turn) else 0 for answer in answers
        )

        assert windows == Counter(dict.fromkeys(range(THREADS * 4 // 2), 2))

    # Counts

    def test_a_count_grows_until_its_end_and_then_begins_anew(
        self, store: Store, other: Store, advance: Advance
    ) -> None:
        first, second = (one.tally("errors", seconds=self.hold) for one in (store, other))
        looked = other.tally("errors", 0, seconds=self.hold)
        advance(self.hold + 0.01)
        over = store.tally("errors", 0, seconds=self.hold)
        anew = other.tally("errors", 2, seconds=self.hold)

        assert [first.count, second.count, looked.count, over.count, anew.count] == [1, 2, 2, 0, 2]
        assert first.ends == second.ends == looked.ends
        assert anew.ends > first.ends
        assert 0 < looked.left <= second.left <= first.left <= self.hold

    def test_a_count_can_be_ended(self, store: Store, other: Store) -> None:
        store.tally("errors", 5, seconds=self.hold)

        assert other.clear("errors")
        assert not other.clear("errors")
        assert store.tally("errors", 0, seconds=self.hold).count == 0

    def test_no_addition_is_lost(self, store: Store, other: Store) -> None:
        def add(one: Store) -> list[int]:
            return [one.tally("errors", seconds=60).count for _ in range(10)]

        counts = [count for some in at_once(store, other, add) for count in some]

        assert sorted(counts) == list(range(1, THREADS * 10 + 1))

    # Restarts

    def test_workers_are_asked_to_restart_by_a_mark_that_everybody_sees(self, store: Store, other: Store) -> None:
        marks = [restarts.asked(other)]
        for _ in range(3):
            restarts.ask(store)
            marks.append(restarts.asked(other))

        assert marks[0] == 0
        assert len(set(marks)) == 4
        assert [restarts.is_asked(other, mark) for mark in marks] == [True, True, True, False]

    def test_a_mark_that_has_ended_restarts_nobody_and_the_next_one_does(self, store: Store, other: Store) -> None:
        restarts.ask(store)
        mark = restarts.asked(store)
        store.clear(restarts.KEY)

        assert not restarts.is_asked(other, mark)
        restarts.ask(store)
        assert restarts.is_asked(other, mark)

    def test_a_mark_lasts_longer_than_any_worker(self, store: Store, other: Store) -> None:
        restarts.ask(store)

        assert other.tally(restarts.KEY, 0, seconds=1).left > 365 * 86_400

    def wait_for_a_window(self, advance: Advance, *, length: float | None = None) -> float:
        """Let time pass until the next window begins, and give its beginning."""
        length = self.window if length is None else length
        begin = (clock.now() // length + 1) * length
        # Beyond what a store's clock may be behind this one.
        advance(begin - clock.now() + 0.02)
        return begin


class KeepsLocksContract(StoreContract, Contract):
    """The store beside a driver's jobs: locks that live as long as a delivery, and turns of jobs that end."""

    capability = KeepsLocks

    @pytest.fixture
    def store(self, driver: KeepsLocks) -> Store:
        return driver.store

    @pytest.fixture
    def other(self, second: KeepsLocks) -> Store:
        return second.store

    @pytest.fixture
    def advance(self) -> Advance:
        raise NotImplementedError(f"{type(self).__name__} must override the fixture `advance`.")

    def test_a_lock_lives_as_long_as_the_lease_of_its_holder(
        self, driver: KeepsLocks, second: KeepsLocks, advance: Advance
    ) -> None:
        push(driver, 2)
        first, another = delivery(driver), delivery(second)

        taken = [driver.store.acquire("k", first, seconds=0), second.store.acquire("k", another, seconds=0)]
        advance(self.lease + 0.01)

        assert taken[0] == Held()
        assert isinstance(taken[1], Taken)
        assert taken[1].job_id == first.job_id
        assert not driver.store.extend("k", first, seconds=60)
        assert second.store.acquire("k", holder(), seconds=60) == Held()
        assert not driver.store.release("k", first)

    def test_a_lease_that_is_renewed_keeps_the_lock(
        self, driver: KeepsLocks, second: KeepsLocks, advance: Advance
    ) -> None:
        if not isinstance(driver, Renewable):
            pytest.skip("the driver renews no lease")
        push(driver)
        first = delivery(driver)
        driver.store.acquire("k", first, seconds=0)
        for _ in range(3):
            advance(0.6 * self.lease)
            assert first.delivery is not None
            driver.renew([first.delivery])

        assert isinstance(second.store.acquire("k", holder(), seconds=60), Taken)
        assert driver.store.extend("k", first, seconds=0)

    @pytest.mark.parametrize("ending", ["ack", "release", "fail"])
    def test_the_end_of_a_delivery_frees_its_lock(self, driver: KeepsLocks, second: KeepsLocks, ending: str) -> None:
        push(driver)
        first = delivery(driver)
        driver.store.acquire("k", first, seconds=0)
        assert first.delivery is not None
        settlements: dict[str, Settlement] = {
            "ack": Ack(first.delivery),
            "release": release(first.delivery, After(60.0)),
            "fail": fail(first.delivery),
        }

        driver.settle([settlements[ending]])

        assert second.store.acquire("k", holder(), seconds=60) == Held()

    def test_a_delivery_that_is_put_back_has_lost_its_lock(self, driver: KeepsLocks, second: KeepsLocks) -> None:
        push(driver)
        first = delivery(driver, token="a lost reply")
        driver.store.acquire("k", first, seconds=0)

        driver.recover("a lost reply")

        assert second.store.acquire("k", delivery(second), seconds=0) == Held()
        assert not driver.store.release("k", first)

    def test_places_of_a_lock_are_freed_with_their_deliveries(self, driver: KeepsLocks, second: KeepsLocks) -> None:
        push(driver, 3)
        held = [delivery(driver) for _ in range(3)]

        answers = [driver.store.acquire("k", one, places=2, seconds=0) for one in held]
        assert held[1].delivery is not None
        driver.settle([Ack(held[1].delivery)])

        assert answers[:2] == [Held()] * 2
        assert isinstance(answers[2], Taken)
        assert second.store.acquire("k", held[2], places=2, seconds=0) == Held()

    @pytest.mark.parametrize("ending", ["cancel", "clear", "fail"])
    def test_a_job_that_ends_otherwise_gives_its_turn_back_in_the_same_step(
        self, driver: KeepsLocks, second: KeepsLocks, advance: Advance, ending: str
    ) -> None:
        limit = self.limit(1)
        self.wait_for_a_window(advance)
        (job_id,) = push(driver)
        book(driver.store, limit)
        first = book(driver.store, limit, owner=job_id)

        match ending:
            case "cancel":
                if not isinstance(driver, Inspectable):
                    pytest.skip("the driver cancels no job")
                assert second.cancel(job_id)  # type: ignore[attr-defined]  # the same kind of driver
            case "clear":
                if not isinstance(driver, Clearable):
                    pytest.skip("the driver clears no queue")
                assert second.clear("default") == 1  # type: ignore[attr-defined]
            case "fail":
                if not isinstance(driver, StoresFailedJobs):
                    pytest.skip("the driver keeps no failed jobs")
                reservation = pop_one(driver)
                assert id_list([reservation]) == [job_id]
                driver.settle([fail(reservation)])

        next_one = book(second.store, limit)
        assert isinstance(first, Turn)
        assert isinstance(next_one, Turn)
        assert next_one.at == first.at
        assert not driver.store.give_back(job_id)

    def test_a_job_that_is_put_back_keeps_its_turn(self, driver: KeepsLocks, advance: Advance) -> None:
        limit = self.limit(1)
        self.wait_for_a_window(advance)
        (job_id,) = push(driver)
        book(driver.store, limit)
        first = book(driver.store, limit, owner=job_id)

        driver.settle([release(pop_one(driver), After(60.0))])

        assert isinstance(first, Turn)
        again = book(driver.store, limit, owner=job_id)
        assert isinstance(again, Turn)
        assert again.at == first.at


OWNER = ids.new_id()


def holder() -> Holder:
    """Somebody whose hold has an end of its own."""
    return Holder(ids.new_id(), ids.new_id())


def delivery(driver: KeepsLocks, *, token: str | None = None) -> Holder:
    """A delivery of the next job, as the holder of locks."""
    reservation = pop_one(driver) if token is None else driver.pop(["default"], token, _ONE).reservations[0]
    return Holder(reservation.envelope.id, reservation.receipt, reservation)


def book(
    store: Store, *limits: Quota, owner: str | None = None, name: str = "emails", ahead: bool = True
) -> Granted | Turn:
    """Ask for a start of a job, of a new one if none is named."""
    return store.book(limits, owner=owner or ids.new_id(), name=name, ahead=ahead)


def at_once(store: Store, other: Store, call: Callable[[Store], T]) -> Sequence[T]:
    """What the call gives to each of several threads that make it at the same time."""
    stores = [store, other] * (THREADS // 2)
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(call, stores))
