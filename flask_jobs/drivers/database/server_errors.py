"""What the refusals of database servers have in common: the kinds of them, and what is said of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import sqlalchemy as sa

from ...errors import ConfigurationError, ConnectionLost, JobsError, SchemaMissing, Stored, StoreRefused
from .dialects.dialect import Overtaken

C = TypeVar("C", int, str)


class NotAllowed(StoreRefused):
    """The user of the connection lacks the right to do that."""


@dataclass(frozen=True, slots=True)
class Refusals(Generic[C]):
    """A server's codes by what they mean: given up for others, no table, no entry, no right, and where advice helps."""

    overtaken: Collection[C]
    missing: Collection[C]
    not_allowed_in: Collection[C]
    not_allowed_to: Collection[C]
    advice: Mapping[C, str]

    def known(self, code: C, said: str, where: str) -> JobsError | None:
        """The library's own error for the code, in the server's words; None if the code is none of these."""
        if code in self.overtaken:
            return Overtaken(f"{where} gave up a transaction for others ({said}); nothing was written.")
        if code in self.missing:
            return SchemaMissing(
                f"The tables of flask_jobs are missing in {where}, or are of another version ({said}). Make them "
                "with `flask jobs init-db`."
            )
        if code in self.not_allowed_in:
            return ConfigurationError(f"{where} lets nobody in like that: {said}")
        if code in self.not_allowed_to:
            return NotAllowed(
                f"{where} refused: the user may not do that ({said}). Grant it SELECT, INSERT, UPDATE and DELETE on "
                "the flask_jobs tables; nothing was written."
            )
        if code in self.advice:
            return StoreRefused(f"{where} refused: {self.advice[code]}; nothing was written.")
        return None


def refused_statement(said: str, where: str) -> StoreRefused:
    """The error where nothing more is known than that the server said no."""
    return StoreRefused(f"{where} refused a statement ({said}); nothing was written.")


def lost_connection(said: str, where: str, stored: Stored) -> ConnectionLost:
    """The error where the server did not answer, or not to the end."""
    return ConnectionLost(
        f"The connection to {where} failed: {said.rstrip('.')}. Is it running, and does the url lead to it?",
        stored=stored,
    )


def without_connection(error: BaseException, where: str) -> ConnectionLost | None:
    """The error where the pool had no connection to give."""
    if not isinstance(error, sa.exc.TimeoutError):
        return None
    return ConnectionLost(f"No connection to {where} became free in time; nothing was sent.", stored=Stored.NO)


def cause_of(error: BaseException) -> BaseException | None:
    """The error of the server's Python driver, out of SQLAlchemy's wrapping."""
    return error.orig if isinstance(error, sa.exc.DBAPIError) else error
