"""What the limits of a store promise to whoever asks at the same time."""

from __future__ import annotations

from collections import Counter

import pytest

from ... import clock, ids
from ...store import Granted, Store, Turn
from .on_store import OWNER, THREADS, OnStore, at_once, book
from .support import Advance


class LimitContract(OnStore):
    """No window gets more than its amount, and who is too many gets a turn of its own."""

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
