"""Jobs that are stored to be pushed later: the links of a chain after the first, and callbacks."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import sqlalchemy as sa

from ...envelope import Followed
from ...pushes import Push, Role
from .packing import dump_push, load_push
from .pushing import Pushing
from .schema import planned
from .statements import Compiler, Transaction, parameter

logger = logging.getLogger(__name__)

_OWNER = planned.c.owner == parameter("owner", sa.String)
_ROLE = planned.c.role == parameter("role", sa.String)
_PLACE = planned.c.place == parameter("place", sa.Integer)


class Planned:
    """Keeps pushes under their chain or batch, and pushes each in the step that takes it out: once, by construction.

    Who takes one out has locked the row of the chain or batch before.
    """

    def __init__(self, compile_: Compiler, pushing: Pushing) -> None:
        self._pushing = pushing
        self._keep = compile_(
            sa.insert(planned).values(
                owner=parameter("owner", sa.String),
                role=parameter("role", sa.String),
                place=parameter("place", sa.Integer),
                push=parameter("push", sa.Text),
            )
        )
        self._find = compile_(sa.select(planned.c.push).where(_OWNER, _ROLE, _PLACE))
        self._take = compile_(sa.delete(planned).where(_OWNER, _ROLE, _PLACE))
        self._drop = compile_(sa.delete(planned).where(_OWNER))

    def keep(self, transaction: Transaction, owner: str, pushes: Sequence[tuple[Role, int, Push]]) -> None:
        """Keep these pushes, each by its role and place."""
        rows = []
        for role, place, push in pushes:
            text = dump_push(push)
            self._pushing.refuse_too_large(push.envelope, text)
            rows.append({"owner": owner, "role": role.value, "place": place, "push": text})
        if rows:
            transaction.run_many(self._keep, rows)

    def follow(self, transaction: Transaction, owner: str, role: Role, place: int = 0) -> Followed | None:
        """Push the one in this place; None if there is none, or what is there cannot be read."""
        at = {"owner": owner, "role": role.value, "place": place}
        rows = transaction.rows(self._find, at)
        if not rows:
            return None
        transaction.run(self._take, at)
        push = load_push(rows[0][0])
        if push is None:
            logger.error("the %s of %s is dropped, for its row of flask_jobs_planned cannot be read", role.value, owner)
            return None
        (answer,) = self._pushing.store_portion(transaction, [push])
        return Followed(push.envelope, answer.holder)

    def drop(self, transaction: Transaction, owners: Sequence[str]) -> None:
        """Forget all that is kept for these."""
        transaction.run_many(self._drop, [{"owner": owner} for owner in owners])
