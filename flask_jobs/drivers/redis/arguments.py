"""What the hot scripts are called with, made of the port's values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from ...driver import PORTION
from ...envelope import Ack, After, Counters, Fail, Release, Room, Settlement
from ...errors import InvalidArgument
from ...history import extended
from ...pushes import Push
from ...validation import queue_name
from ..transitions import End
from .keys import SEPARATOR
from .scripts import Argument
from .values import encoded, error_text, history_text, instant_text, ties_text

ENOUGH = 8_000_000
"""Bytes of bodies after which a portion ends, so that no other client waits long for it."""


def push_portions(pushes: Sequence[Push]) -> Iterator[Sequence[Push]]:
    """The pushes cut into portions of at most `PORTION` jobs, and fewer if their bodies are large."""
    start, size = 0, 0
    for end, push in enumerate(pushes):
        length = len(push.envelope.body)
        if end > start and (end - start == PORTION or size + length > ENOUGH):
            yield pushes[start:end]
            start, size = end, 0
        size += length
    if start < len(pushes):
        yield pushes[start:]


def push_arguments(pushes: Sequence[Push]) -> list[Argument]:
    """The arguments of the script that stores a portion: what jobs in a row have in common is said once."""
    arguments: list[Argument] = [len(pushes)]
    for common, group in groupby(map(single, pushes), key=itemgetter(slice(1, -1))):
        own = [part for fields in group for part in (fields[0], fields[-1])]
        arguments += [*common, len(own) // 2, *own]
    return arguments


def single(push: Push) -> list[Argument]:
    """The arguments of the script that stores one job."""
    *plain, name, rest = _fields(push)
    return [*plain, encoded(name), encoded(rest)]


def packed(push: Push | None) -> Argument:
    """A push that is planned, as a script unpacks it; empty for none."""
    return b"" if push is None else encoded(SEPARATOR.join(_fields(push)))


def _fields(push: Push) -> list[str]:
    envelope = push.envelope
    if SEPARATOR in envelope.name:
        raise InvalidArgument(f"{envelope.name!r} is no job name: it has a control character in it.")
    is_delayed = not (isinstance(push.due, After) and push.due.seconds <= 0)
    return [
        envelope.id,
        envelope.queue,
        "1" if push.front else "",
        instant_text(push.due) if is_delayed else "",
        instant_text(push.retry_until),
        envelope.name,
        SEPARATOR.join([envelope.retried_from or "", ties_text(envelope.ties), "", envelope.body]),
    ]


def pop_arguments(queues: Sequence[str], token: str, room: Room) -> list[Argument]:
    """The arguments of a pop."""
    for queue in queues:
        queue_name(queue)
    limit = min(room.limit, PORTION)
    means = json.dumps(dict(room.means)) if limit > 1 else "{}"
    return [token, limit, repr(room.box), means, len(queues), *queues]


def settle_arguments(settlements: Sequence[Settlement]) -> tuple[list[Argument], list[Settlement]]:
    """The arguments of a settling, and the settlements in the order in which the script numbers them."""
    acks: dict[tuple[str, str, str], list[Settlement]] = {}
    others: list[Release | Fail] = []
    for settlement in settlements:
        match settlement:
            case Ack(reservation):
                key = (reservation.envelope.queue, reservation.receipt, _ending(settlement))
                acks.setdefault(key, []).append(settlement)
            case Release() | Fail():
                others.append(settlement)
    arguments: list[Argument] = [len(acks)]
    for key, group in acks.items():
        arguments += [*key, len(group), *[ack.reservation.envelope.id for ack in group]]
    arguments.append(len(others))
    for other in others:
        arguments += _other(other)
    return arguments, [*[ack for group in acks.values() for ack in group], *others]


def _ending(ack: Ack) -> str:
    """How a job has ended that must be told of it; empty for one that stands alone, and is told of nothing."""
    if ack.reservation.envelope.ties is None:
        return ""
    return End.of(ack).value


def _other(settlement: Release | Fail) -> list[Argument]:
    reservation = settlement.reservation
    delivery = [reservation.envelope.queue, reservation.receipt, reservation.envelope.id]
    entries = () if settlement.entry is None else (settlement.entry,)
    past = history_text(extended(reservation.history, *entries))
    match settlement:
        case Release():
            return ["release", *delivery, instant_text(settlement.due), *_numbers(settlement.counters), past]
        case Fail():
            return ["fail", *delivery, error_text(settlement.error), *_numbers(settlement.counters), past]


def _numbers(counters: Counters) -> list[Argument]:
    return [counters.attempts, counters.errors, counters.releases, counters.interruptions]
