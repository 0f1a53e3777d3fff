"""What is on its way to a driver: a job, chain or batch, with the answer that its dispatcher holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from .dispatched import Dispatched, Status
from .driver import Driver
from .pushes import BatchPush, ChainPush, Package, Push, pushes_in


@dataclass(slots=True, eq=False)
class Item:
    """A job, chain or batch on its way to a driver, with the answer that its dispatcher holds.

    The driver is the one it was dispatched to, also if a fake stands in its place, or does no more, when the
    transaction commits. `stored` are the jobs of it that were added, as far as that is known.
    """

    connection: str
    driver: Driver
    package: Package
    answer: Dispatched
    sensitive: bool
    stored: Sequence[Push] = field(default=())


def wants_key(package: Package) -> bool:
    """Whether one of its jobs has a unique key."""
    return any(push.envelope.ties is not None and push.envelope.ties.key is not None for push in pushes_in(package))


def deferred(item: Item) -> Item:
    """The item and its answer, as one that waits for a commit."""
    item.answer.status = Status.DEFERRED
    match item.package:
        case Push() as push:
            package: Package = replace(push, deferred=True)
        case ChainPush() as chain:
            package = replace(chain, links=(replace(chain.links[0], deferred=True), *chain.links[1:]))
        case BatchPush() as batch:
            package = replace(batch, members=tuple(replace(push, deferred=True) for push in batch.members))
    return replace(item, package=package)


def answered(package: Package) -> Sequence[Push]:
    """The jobs that a driver answers for: of a chain the first link, of a batch each member."""
    match package:
        case Push():
            return [package]
        case ChainPush():
            return package.links[:1]
        case BatchPush():
            return package.members


def id_of(package: Package) -> str:
    """The id that its dispatcher is answered with."""
    return package.id if isinstance(package, BatchPush) else answered(package)[0].envelope.id


def digest_of(item: Item) -> str | None:
    """The unique key that the item takes when it is pushed; a member of a batch waits without one."""
    ties = None if isinstance(item.package, BatchPush) else answered(item.package)[0].envelope.ties
    return None if ties is None or ties.key is None else ties.key.digest


def by_target(items: Iterable[Item]) -> list[list[Item]]:
    """The items in their order, apart for each connection and driver."""
    groups: dict[tuple[str, int], list[Item]] = {}
    for item in items:
        groups.setdefault((item.connection, id(item.driver)), []).append(item)
    return list(groups.values())
