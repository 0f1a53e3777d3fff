"""The way to the store that the threads of one process share: what they want at the same time goes in one exchange.

Whoever wants something while nobody is under way sets out at once, so that one alone waits for nobody. What the others
want meanwhile is gathered, and goes with the first of them as soon as the one under way is back.

All who take part in a trip have the token of its one pop on their lanes before it is sent, as if each had sent it. That
token alone no longer says whose a job is, so nobody puts back by it but what he knows to be his own or nobody's:

- who has been given a part of what it brought keeps, when he puts back, what it brought the others (`Brought.others`);
- if the answer is lost, nobody has been given anything, and each may put all of it back;
- for a process that died, the supervisor first settles what all its lanes had taken up, and puts back what is left of
  any of its tokens only then, for one lane may show a job as begun while another has not even heard of the answer.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from queue import SimpleQueue

from .. import clock
from ..driver import Driver
from ..envelope import Exchange, Popped, Reservation, Settled, Settlement
from ..ids import new_id
from .means import Means

# Who waits for his turn to watch looks so often, in seconds, whether he is wanted elsewhere.
_LOOK_EVERY = 0.5


@dataclass(frozen=True, slots=True)
class Brought:
    """What a trip has brought one worker. `others`: the ids of the jobs that the same pop brought others."""

    settled: Settled
    popped: Popped
    others: frozenset[str] = frozenset()

    @property
    def was_passed_by(self) -> bool:
        """Whether others got all there was, so that there may be more."""
        return bool(self.others) and not self.popped.reservations


@dataclass(slots=True)
class Wish:
    """What one worker wants: these settled, and up to `most` jobs.

    `note` is told the token before it is sent, which `token` holds from then on. `alone`: not together with others,
    because it may be what made the last trip fail, nor after them, because that took long.
    """

    settlements: Sequence[Settlement]
    most: int
    note: Callable[[str], None]
    alone: bool = False
    token: str = ""
    # None says that it is its turn to set out, with all who have joined it.
    news: SimpleQueue[Brought | BaseException | None] = field(default_factory=SimpleQueue)


class _Trip:
    """Those who go together."""

    def __init__(self) -> None:
        self.token = new_id()
        self.wishes: list[Wish] = []

    def join(self, wish: Wish) -> None:
        wish.token = self.token
        wish.note(self.token)
        self.wishes.append(wish)


class Carrier:
    """Takes wishes to the store, one trip at a time, and waits for work. `means`: what its workers know of jobs."""

    def __init__(self, driver: Driver, queues: Sequence[str]) -> None:
        self.means = Means()
        self._driver = driver
        self._queues = queues
        self._lock = threading.Lock()
        self._is_under_way = False
        self._next = _Trip()
        self._watching = threading.Lock()

    def exchange(self, wish: Wish) -> Brought:
        """Settle and pop; raises what the driver raises, for all who took part."""
        if wish.alone:
            trip = _Trip()
            trip.join(wish)
            return self._carry(trip)[0]
        with self._lock:
            self._next.join(wish)
            must_wait, self._is_under_way = self._is_under_way, True
        if must_wait and (news := wish.news.get()) is not None:
            if isinstance(news, BaseException):
                raise news
            return news
        return self._set_out()

    def wait(self, *, timeout: float, stopping: Callable[[], bool]) -> None:
        """Return when there may be work, after `timeout` seconds, or soon after `stopping()`.

        One watches the store for all. When it has seen something, the next takes its place and finds at once whether
        there is work for it as well: what comes for one wakes few, and what comes for many wakes one after the other.
        """
        ends = clock.monotonic() + timeout
        while not stopping() and (left := ends - clock.monotonic()) > 0:
            if self._watching.acquire(timeout=min(left, _LOOK_EVERY)):
                try:
                    self._driver.wait(self._queues, timeout=ends - clock.monotonic(), stopping=stopping)
                finally:
                    self._watching.release()
                return

    def _set_out(self) -> Brought:
        with self._lock:
            trip, self._next = self._next, _Trip()
        parts: Sequence[Brought | BaseException] = ()
        try:
            first, *parts = self._carry(trip)
            return first
        except BaseException as error:
            parts = [error] * (len(trip.wishes) - 1)
            raise
        finally:
            self._let_the_next_go()
            for wish, part in zip(trip.wishes[1:], parts, strict=True):
                wish.news.put(part)

    def _let_the_next_go(self) -> None:
        with self._lock:
            self._is_under_way = bool(self._next.wishes)
            if self._is_under_way:
                self._next.wishes[0].news.put(None)

    def _carry(self, trip: _Trip) -> list[Brought]:
        wishes, token = trip.wishes, trip.token
        room = self.means.room(sum(wish.most for wish in wishes), workers=len(wishes))
        settlements = [settlement for wish in wishes for settlement in wish.settlements]
        if settlements:
            answer = self._driver.exchange(settlements, self._queues, token, room)
        else:
            answer = Exchange(Settled(), self._driver.pop(self._queues, token, room))
        if len(wishes) == 1:
            return [Brought(answer.settled, answer.popped)]
        return self._shared_out(wishes, answer)

    def _shared_out(self, wishes: Sequence[Wish], answer: Exchange) -> list[Brought]:
        all_ids = {reservation.envelope.id for reservation in answer.popped.reservations}
        stale = {_named(settlement): settlement for settlement in answer.stale}
        # What concerns nobody in particular is for the first to tell of.
        followed, reclaimed = answer.settled.followed, answer.popped.reclaimed
        parts = []
        for wish, hand in zip(wishes, self._dealt(wishes, answer.popped.reservations), strict=True):
            late = tuple([stale[name] for name in map(_named, wish.settlements) if name in stale])
            popped = replace(answer.popped, reservations=tuple(hand), reclaimed=reclaimed)
            others = frozenset(all_ids.difference([reservation.envelope.id for reservation in hand]))
            parts.append(Brought(Settled(late, followed), popped, others))
            followed, reclaimed = (), ()
        return parts

    def _dealt(self, wishes: Sequence[Wish], reservations: Sequence[Reservation]) -> list[list[Reservation]]:
        """What each gets: one after the other goes to whoever has the least to do."""
        hands: list[list[Reservation]] = [[] for _ in wishes]
        loads = [(0.0, number) for number in range(len(wishes))]
        for reservation in reservations:
            load, number = heapq.heappop(loads)
            hands[number].append(reservation)
            if len(hands[number]) < wishes[number].most:
                heapq.heappush(loads, (load + self.means.expected(reservation.envelope.name), number))
        return hands


def _named(settlement: Settlement) -> tuple[str, str]:
    return settlement.reservation.envelope.id, settlement.reservation.receipt
