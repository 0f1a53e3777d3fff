"""That a job with ties has ended: what its chain and its batch are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...envelope import Ack, Fail, Ties
from ..transitions import End, has_failed_before
from .packing import load_ties


@dataclass(frozen=True, slots=True)
class Ended:
    """A job with these ties has ended so. `again`: its batch has counted it as failed before."""

    ties: Ties
    end: End
    again: bool = False

    @classmethod
    def by(cls, settlement: Ack | Fail) -> Ended | None:
        """What the settlement ends, if it is a job with ties."""
        envelope = settlement.reservation.envelope
        if envelope.ties is None:
            return None
        return cls(envelope.ties, End.of(settlement), has_failed_before(envelope))


def removed(rows: Sequence[tuple[Any, ...]]) -> list[Ended]:
    """The jobs with ties among these rows of id, ties and retried_from, which were taken out while they waited."""
    return [
        Ended(ties, End.REMOVED, again=retried_from is not None)
        for job_id, text, retried_from in rows
        if (ties := load_ties(text, job_id=job_id)) is not None
    ]


def forgotten(rows: Sequence[tuple[Any, ...]]) -> list[Ended]:
    """The failed jobs with ties among these rows of id and ties, which will not be retried."""
    found = [load_ties(text, job_id=job_id) for job_id, text in rows]
    return [Ended(ties, End.REMOVED, again=True) for ties in found if ties is not None]
