"""Chains in tables: each link is stored in the transaction that ends the one before it."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ...envelope import Followed, Ties
from ...pushes import ChainPush, Pushed, Role
from ...stored import StoredChain
from ..transitions import End
from .ended import Ended
from .packing import load_push
from .planned import Planned
from .pushing import Pushing
from .schema import chains, planned
from .statements import Compiler, Transaction, constant, parameter

_CHAIN = chains.c.id == parameter("chain", sa.String)


class Chains:
    """Pushes chains, advances them, and ends them."""

    def __init__(self, compile_: Compiler, pushing: Pushing, planned: Planned) -> None:
        self._pushing = pushing
        self._planned = planned
        self._find = compile_(_find())
        self._hold = compile_(compile_.dialect.holding(sa.select(chains.c.total, chains.c.link).where(_CHAIN)))
        self._insert = compile_(
            sa.insert(chains).values(
                id=parameter("id", sa.String),
                total=parameter("total", sa.Integer),
                link=constant(1),
                job_id=parameter("job_id", sa.String),
                created_at=compile_.now,
            )
        )
        self._advance = compile_(
            sa.update(chains)
            .where(_CHAIN)
            .values(link=parameter("link_now", sa.Integer), job_id=parameter("job_now", sa.String))
        )
        self._end = compile_(sa.delete(chains).where(_CHAIN))

    def push(self, transaction: Transaction, chain: ChainPush) -> Pushed:
        """Store the chain and push its first link; nothing is stored if that link is not."""
        (answer,) = self._pushing.store(transaction, chain.links[:1])
        if not answer.stored:
            return answer
        row = {"id": chain.id, "total": len(chain.links), "job_id": answer.id}
        transaction.run(self._insert, row)
        pushes = [(Role.LINK, place, push) for place, push in enumerate(chain.links[1:], start=2)]
        if chain.catch is not None:
            pushes.append((Role.CATCH, 0, chain.catch))
        self._planned.keep(transaction, chain.id, pushes)
        return answer

    def find(self, transaction: Transaction, chain_id: str) -> StoredChain | None:
        """The chain, or None if it has ended."""
        rows = transaction.rows(self._find, {"chain": chain_id})
        if not rows:
            return None
        rows = sorted(rows, key=lambda row: row[-1] or 0)
        kept = [(role, push.envelope) for *_, role, text, _ in rows if (push := load_push(text)) is not None]
        waiting = tuple(envelope for role, envelope in kept if role == Role.LINK.value)
        catch = next((envelope for role, envelope in kept if role == Role.CATCH.value), None)
        total, link, job_id, created_at, *_ = rows[0]
        return StoredChain(chain_id, total, link, job_id, created_at, waiting, catch)

    def tell(self, transaction: Transaction, chain_id: str, ended: Ended) -> Followed | None:
        """Let the chain know that a link has ended; gives what was pushed or dropped for it."""
        rows = transaction.rows(self._hold, {"chain": chain_id})
        if not rows or rows[0][1] != ended.ties.link:
            return None
        total, link = rows[0]
        match ended.end:
            case End.FAILED:
                return self._planned.follow(transaction, chain_id, Role.CATCH)
            case End.DONE | End.SKIPPED if link < total:
                return self._go_on(transaction, chain_id, link + 1)
            case _:
                self._over(transaction, chain_id)
                return None

    def follow_retry(self, transaction: Transaction, ties: Ties, new_id: str) -> None:
        """Let the chain know which job has taken the place of its failed link."""
        if ties.chain is not None and not ties.is_callback:
            transaction.run(self._advance, {"chain": ties.chain, "link_now": ties.link, "job_now": new_id})

    def _go_on(self, transaction: Transaction, chain_id: str, link: int) -> Followed | None:
        followed = self._planned.follow(transaction, chain_id, Role.LINK, link)
        if followed is None or followed.holder is not None:
            self._over(transaction, chain_id)
        else:
            advanced = {"chain": chain_id, "link_now": link, "job_now": followed.envelope.id}
            transaction.run(self._advance, advanced)
        return followed

    def _over(self, transaction: Transaction, chain_id: str) -> None:
        transaction.run(self._end, {"chain": chain_id})
        self._planned.drop(transaction, [chain_id])


def _find() -> sa.Select[Any]:
    """The chain, once for each push that is kept for it and at least once, all as of one instant."""
    of_chain = (chains.c.total, chains.c.link, chains.c.job_id, chains.c.created_at)
    both = chains.outerjoin(planned, planned.c.owner == chains.c.id)
    kept = (planned.c.role, planned.c.push, planned.c.place)
    return sa.select(*of_chain, *kept).select_from(both).where(_CHAIN)
