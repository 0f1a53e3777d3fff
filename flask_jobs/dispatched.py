"""What a call says about a dispatch, and what it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy.orm import Session, scoped_session


class Status(Enum):
    """What has become of a dispatch so far."""

    PUSHED = "pushed"
    DEFERRED = "deferred"
    RAN = "ran"
    DISCARDED = "discarded"
    FAILED = "failed"


@dataclass(slots=True)
class Dispatched:
    """The answer to a dispatch: the job's id, and where it is.

    A deferred one becomes pushed (or ran) with the commit, discarded with the rollback, or failed if it could not
    be stored after the commit.
    """

    id: str
    status: Status


@dataclass(frozen=True, slots=True)
class Options:
    """What a call may say about a dispatch; None leaves it to the job, then to the connection."""

    queue: str | None = None
    connection: str | None = None
    delay: object = None
    after_commit: bool | None = None
    front: bool = False
    id: object = None
    session: Session | scoped_session[Any] | None = None
