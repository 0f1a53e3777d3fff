"""Unique keys: what a unique job says of itself, as the key that a store compares."""

from __future__ import annotations

import hashlib
import uuid

from .envelope import Key
from .errors import InvalidArgument
from .job import Job
from .validation import seconds

UNTIL_FINISHED, UNTIL_PROCESSING = "until_finished", "until_processing"

# Of a long id people see the beginning; stores compare a digest of the whole.
_SAID = 200


def check_unique(job: Job | type[Job]) -> None:
    """Raise `InvalidArgument`, naming class and option, if its options for uniqueness cannot be used."""
    if job.unique not in (False, True, UNTIL_FINISHED, UNTIL_PROCESSING):
        raise InvalidArgument(
            f"{_label(job)}.unique is True, {UNTIL_FINISHED!r} (the same), {UNTIL_PROCESSING!r} or False, "
            f"not {job.unique!r}."
        )
    if job.unique_for is not None and seconds(job.unique_for, what=f"{_label(job)}.unique_for") <= 0:
        raise InvalidArgument(f"{_label(job)}.unique_for must be more than 0 seconds, or None for no bound.")


def key_of(job: Job, name: str) -> Key | None:
    """The unique key that a job of this registered name takes, or None if it is not unique."""
    if job.unique is False:
        return None
    id_ = job.unique_id()
    if isinstance(id_, bool) or not isinstance(id_, str | int | uuid.UUID):
        raise InvalidArgument(
            f"{_label(job)}.unique_id() must give a string, a whole number or a UUID, not {type(id_).__name__}."
        )
    said = f"{name}:{id_}" if id_ != "" else name
    return Key(
        # A registered name has no zero byte in it, so that no name and id look like another name and id.
        digest=hashlib.sha256(f"{name}\0{id_}".encode("utf-8", "surrogatepass")).hexdigest(),
        said=said if len(said) <= _SAID else f"{said[: _SAID - 1]}…",
        until_processing=job.unique == UNTIL_PROCESSING,
        seconds=None if job.unique_for is None else seconds(job.unique_for, what="unique_for"),
    )


def _label(job: Job | type[Job]) -> str:
    return (job if isinstance(job, type) else type(job)).__name__
