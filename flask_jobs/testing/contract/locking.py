"""What the locks of a store promise to whoever runs beside each other."""

from __future__ import annotations

import pytest

from ... import clock
from ...errors import InvalidArgument
from ...store import Held, Holder, Store, Taken
from .on_store import OnStore, at_once, holder
from .support import Advance


class LockContract(OnStore):
    """One holder at a time, or so many as there are places; who is late frees nothing."""

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
