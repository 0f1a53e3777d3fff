"""Unique keys: a column of the job's own row, so that a key is there exactly as long as its job."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from ...envelope import After, Key, Ties
from ...pushes import Push
from .dialects import Overtaken
from .packing import dump_ties
from .schema import jobs
from .statements import Compiler, Transaction, constant, instant_parameters, parameter
from .text import Parameters, Statement

ROUNDS = 5
"""How often a key is tried for that is found held, and is free again when one looks who holds it."""

_OF_DIGEST = jobs.c.unique_key == parameter("digest", sa.String)


class Keys:
    """Tells who holds a key, takes it from one whose time is over, and inserts jobs that want one."""

    def __init__(self, compile_: Compiler) -> None:
        self._dialect = compile_.dialect
        is_over = jobs.c.key_until <= compile_.now
        held = is_held(compile_)
        self._holder = compile_(sa.select(jobs.c.id).where(_OF_DIGEST, held))
        row = sa.select(jobs.c.id, sa.case((held, constant(1)), else_=constant(0))).where(_OF_DIGEST)
        self._row = compile_(compile_.dialect.current(row))
        self._free_over = compile_(
            sa.update(jobs).where(_OF_DIGEST, is_over).values(unique_key=sa.null(), key_until=sa.null())
        )

    def holder(self, transaction: Transaction, digest: str) -> str | None:
        """The job that holds the key, or None."""
        rows = transaction.rows(self._holder, {"digest": digest})
        return str(rows[0][0]) if rows else None

    def holder_in_the_way(self, transaction: Transaction, digest: str) -> str | None:
        """The job that keeps another one from being inserted; None if there is none, or no more."""
        rows = transaction.rows(self._row, {"digest": digest})
        for job_id, holds in rows:
            if holds:
                return str(job_id)
            transaction.run(self._free_over, {"digest": digest})
        return None

    def insert(self, transaction: Transaction, statement: Statement, row: Parameters) -> bool:
        """Run an `insert_unless_taken` and say whether it has inserted its row."""
        try:
            return transaction.run(statement, row) > 0
        except Exception as error:  # the Python driver's own class, which only the dialect knows
            if not self._dialect.is_duplicate(error):
                raise
            return False


def is_held(compile_: Compiler) -> sa.ColumnElement[bool]:
    """Whether a job that has a unique key still holds it against others."""
    return sa.or_(jobs.c.key_until.is_(None), jobs.c.key_until > compile_.now)


def overtaken(what: str) -> Overtaken:
    """The error where a key was taken and given back by others again and again."""
    return Overtaken(f"{what} was overtaken by others again and again; nothing was written.")


def key_of(push: Push) -> Key | None:
    """The unique key that the job wants."""
    return None if push.envelope.ties is None else push.envelope.ties.key


def wanted_digests(pushes: Sequence[Push]) -> set[str]:
    """The digests of all unique keys that these jobs want."""
    return {key.digest for push in pushes if (key := key_of(push)) is not None}


def digest_of(ties: Ties | None) -> str | None:
    """The digest of the unique key, if there is one."""
    return None if ties is None or ties.key is None else ties.key.digest


def tie_parameters(ties: Ties | None) -> dict[str, object]:
    """The ties as columns of a new row."""
    return {
        "ties": None if ties is None else dump_ties(ties),
        "unique_key": digest_of(ties),
        **key_until_parameters(ties),
    }


def key_until_parameters(ties: Ties | None) -> dict[str, object]:
    """The bound of the unique key as parameters of an instant that is called `key`."""
    seconds = None if ties is None or ties.key is None else ties.key.seconds
    return instant_parameters("key", None if seconds is None else After(seconds))
