"""The Redis driver: every transition is one script on one server, by that server's clock."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from redis import Redis, RedisCluster

from ... import clock as time
from ...config import Clock
from ...driver import PORTION, KeepsLocks, Renewable, TracksProgress
from ...envelope import Exchange, Popped, Progress, Reservation, Room, Settled, Settlement
from ...pushes import Push, Pushed
from ...stored import Sizes
from ...validation import queue_name
from .arguments import pop_arguments, settle_arguments, single
from .checks import check_server
from .client import Server
from .failed import RedisFailedJobs
from .following import RedisFollowing
from .keys import SEPARATOR, Keys, member
from .operators import RedisOperators
from .pushing import Answers, push_all, pushed_as
from .scripts import Argument, Scripts
from .store import RedisStore
from .values import decoded, delivery, followed, progress_text, reclaimed, reservation

WORK = b"work"
"""What an element of a notify list says when there is work; any other only says that it is time to look."""

LOOK_EVERY = 1.0
"""Seconds after which a waiting worker looks whether it missed a wake-up."""


class RedisDriver(RedisFollowing, RedisOperators, RedisFailedJobs, Renewable, TracksProgress, KeepsLocks):
    """Jobs in Redis or Valkey. `client` is a URL, or a client that stays the caller's to close.

    `prefix` and `connection` make up the head of all keys; drivers with the same two share their jobs. `clock` is
    the server's ("store") or this host's ("local").
    """

    def __init__(
        self,
        client: str | Redis | RedisCluster,
        *,
        prefix: str,
        connection: str,
        retry_after: float = 90.0,
        remember_ids: float = 3600.0,
        clock: Clock = "store",
    ) -> None:
        self.retry_after = retry_after
        self._keys = Keys.of(prefix, connection)
        head = self._keys.head
        self._server = Server.at(client, key=head) if isinstance(client, str) else Server.of(client, key=head)
        self._scripts = Scripts(self._server, head, remember_ids=remember_ids, retry_after=retry_after, clock=clock)
        self._store = RedisStore(self._scripts)

    @property
    def store(self) -> RedisStore:
        """Locks, limits and counts beside the jobs."""
        return self._store

    def push(self, pushes: Sequence[Push]) -> list[Pushed]:
        """Store the jobs in portions, each whole or not at all; an error says how many were stored before it."""
        if len(pushes) == 1:
            queue_name(pushes[0].envelope.queue)
            return [pushed_as(pushes[0], self._scripts.run("push_one", *single(pushes[0])))]
        return push_all(pushes, self._send) or [] if pushes else []

    def pop(self, queues: Sequence[str], token: str, room: Room) -> Popped:
        """Reserve what is due, in one script."""
        return _popped(self._scripts.run("pop", *pop_arguments(queues, token, room)), token)

    def settle(self, settlements: Sequence[Settlement]) -> Settled:
        """Settle in portions, one script for each."""
        settled = Settled()
        for start in range(0, len(settlements), PORTION):
            arguments, order = settle_arguments(settlements[start : start + PORTION])
            settled = _joined(settled, _settled(self._scripts.run("settle", *arguments), order))
        return settled

    def exchange(self, settlements: Sequence[Settlement], queues: Sequence[str], token: str, room: Room) -> Exchange:
        """Settle and pop in one script."""
        first, rest = settlements[:-PORTION], settlements[-PORTION:]
        settled = self.settle(first)
        arguments, order = settle_arguments(rest)
        answer, found = self._scripts.run("exchange", *arguments, *pop_arguments(queues, token, room))
        return Exchange(_joined(settled, _settled(answer, order)), _popped(found, token))

    def recover(self, token: str, keep: Collection[str] = ()) -> int:
        """Put back what the pop with this token holds: found by a scan of what is reserved, moved by one script."""
        kept, back = set(keep), 0
        for queue in self._known_queues():
            held = [name for _, name, job_id in self._held(queue, token) if job_id not in kept]
            for start in range(0, len(held), PORTION):
                # The later ones first, for each portion goes before all that is there.
                portion = held[-PORTION - start : len(held) - start]
                back += self._scripts.run("recover", queue, len(portion), *portion)
        return back

    def held(self, token: str) -> list[Reservation]:
        """What the pop with this token holds: found by a scan of what is reserved, read by one script per queue."""
        found = [(lease, queue, name) for queue in self._known_queues() for lease, name, _ in self._held(queue, token)]
        held: list[Reservation] = []
        for start in range(0, len(found), PORTION):
            portion = sorted(found)[start : start + PORTION]
            names = [part for _, queue, name in portion for part in (queue, name)]
            held += _held(self._scripts.run("held", len(portion), *names))
        return held

    def renew(self, reservations: Sequence[Reservation]) -> list[Reservation]:
        """Extend the leases that live, one script for each portion."""
        lost: list[Reservation] = []
        for start in range(0, len(reservations), PORTION):
            portion = reservations[start : start + PORTION]
            names = [part for held in portion for part in (held.envelope.queue, member(held.receipt, held.envelope.id))]
            lost += [portion[number] for number in self._scripts.run("renew", len(portion), *names)]
        return lost

    def note_progress(self, reservation: Reservation, progress: Progress) -> bool:
        """Store the progress if the delivery is live."""
        job = reservation.envelope
        name = member(reservation.receipt, job.id)
        return bool(self._scripts.run("note_progress", job.queue, name, job.id, progress_text(progress)))

    def wait(self, queues: Sequence[str], *, timeout: float, stopping: Callable[[], bool]) -> None:
        """Block on the notify lists of all queues at once, in short turns, until one rings or something is due."""
        lists = [self._keys.of_queue("notify", queue) for queue in queues]
        end = time.monotonic() + timeout
        while not stopping() and (left := end - time.monotonic()) > 0:
            soon = self._scripts.run("peek", len(queues), *queues)
            until_due = float(soon) if soon else LOOK_EVERY
            if until_due <= 0:
                return
            # A time limit of 0 would mean for ever.
            turn = max(0.001, min(LOOK_EVERY, left, until_due))
            rung = self._server.run_blocking("BLPOP", *lists, f"{turn:.3f}", seconds=turn, stopping=stopping)
            if rung and rung[1] == WORK:
                return

    def size(self, queue: str) -> Sizes:
        """Count the queue's jobs; those that are due count as ready."""
        return Sizes(*self._scripts.run("size", queue_name(queue)))

    def prepare(self) -> None:
        """Check the server's version, and warn of an eviction policy that could take jobs away."""
        check_server(self._server)

    def close(self) -> None:
        """Close the connections, unless the client was passed in."""
        self._server.close()

    def _send(self, portion: list[Argument], is_last: bool) -> Answers:
        answers: Answers = self._scripts.run("push", *portion)
        return answers

    def _held(self, queue: str, token: str) -> list[tuple[float, bytes, str]]:
        """Leases, members and ids of what the token holds, by their leases, which tell the order of the pop."""
        pattern = member("[01]" + re.sub(r"([\\*?\[\]])", r"\\\1", token), "*")
        found = self._scan("ZSCAN", self._keys.of_queue("reserved", queue), "MATCH", pattern)
        held = sorted({(float(lease), name) for name, lease in zip(found[::2], found[1::2], strict=True)})
        return [(lease, name, decoded(name).rpartition(SEPARATOR)[2]) for lease, name in held]


def _settled(answer: Any, order: Sequence[Settlement]) -> Settled:
    late, arrived = answer
    followers = [followed(*arrived[i : i + 3]) for i in range(0, len(arrived), 3)]
    return Settled(tuple([order[number] for number in late]), tuple(followers))


def _joined(first: Settled, then: Settled) -> Settled:
    return Settled(first.stale + then.stale, first.followed + then.followed)


def _held(answer: Any) -> list[Reservation]:
    present, *parts = answer
    now = float(present)
    return [delivery(name, value, now) for name, value in zip(parts[::2], parts[1::2], strict=True)]


def _popped(answer: Any, token: str) -> Popped:
    present, due, jobs, lost = answer
    now = float(present)
    receipt = f"{'1' if len(jobs) == 2 else '0'}{token}"
    pairs = zip(jobs[::2], jobs[1::2], strict=True)
    return Popped(
        reservations=tuple([reservation(job_id, value, receipt, now) for job_id, value in pairs]),
        now=now,
        next_due=float(due) if due else None,
        reclaimed=tuple([reclaimed(*lost[i : i + 3]) for i in range(0, len(lost), 3)]),
    )
