"""Jobs on their way into a store: one by one, as a chain, as a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import Enum

from .envelope import NOW, Envelope, When
from .values import value


@value
class Push:
    """An envelope on its way into a store.

    `front` goes to the head of its queue. `retry_until` is the job's deadline. `deferred` says that it waited
    for a commit.
    """

    envelope: Envelope
    due: When = NOW
    front: bool = False
    retry_until: When | None = None
    deferred: bool = False


@value
class Pushed:
    """The answer to one push.

    `stored` is false when nothing was added: the id was stored before, or `holder` is the id of the job that holds
    the unique key.
    """

    id: str
    stored: bool = True
    holder: str | None = None


class Role(Enum):
    """What a planned job is stored for."""

    LINK = "link"
    CATCH = "catch"
    THEN = "then"
    FINALLY = "finally"


@value
class ChainPush:
    """Jobs to run one after the other, pushed as a whole: the first at once, each other with the success before it.

    `catch` is run once if a link fails. The ties of each link name the chain and its place.
    """

    id: str
    links: tuple[Push, ...]
    catch: Push | None = None


@value
class BatchPush:
    """Jobs to run in any order, pushed and counted together. The ties of each member name the batch.

    `callbacks` are run once each: `then` when all members are done, `catch` at the first failure, `finally` when
    none is left. Without `allow_failures` the first failure cancels the batch.
    """

    id: str
    members: tuple[Push, ...]
    name: str = ""
    callbacks: Mapping[Role, Push] = field(default_factory=dict)
    allow_failures: bool = False


Package = Push | ChainPush | BatchPush
"""What can be pushed within a transaction of the application."""


def pushes_in(package: Package) -> Sequence[Push]:
    """All jobs of a package, whether they are pushed at once or later."""
    match package:
        case Push():
            return [package]
        case ChainPush(links=links, catch=catch):
            return links if catch is None else [*links, catch]
        case BatchPush(members=members, callbacks=callbacks):
            return [*members, *callbacks.values()]
