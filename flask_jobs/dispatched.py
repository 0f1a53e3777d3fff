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
    DUPLICATE = "duplicate"
    DISCARDED = "discarded"
    FAILED = "failed"


@dataclass(slots=True)
class Dispatched:
    """The answer to a dispatch: the job's id, and where it is. False only for a duplicate.

    A deferred one becomes pushed (or ran) with the commit, discarded with the rollback, failed if it could not be
    stored after the commit, or duplicate if another job took its unique key meanwhile. `holder` is the id of the job
    that holds the key of a duplicate. Of a chain `id` is that of the first link, and `chain` its own.
    """

    id: str
    status: Status
    holder: str | None = None
    chain: str | None = None

    def __bool__(self) -> bool:
        """Whether the job is, will be, or was to be done, and not dropped for another one like it."""
        return self.status is not Status.DUPLICATE


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
