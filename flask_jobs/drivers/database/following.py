"""Chains and batches together: storing them, and telling them of the ends of jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ...envelope import Followed
from ...pushes import BatchPush, ChainPush, Package, Push, Pushed
from .batches import Batches
from .chains import Chains
from .ended import Ended
from .planned import Planned
from .pushing import Pushing
from .statements import Compiler, Transaction


class Following:
    """Pushes chains and batches, and tells them of ends in the transaction that ends the jobs."""

    def __init__(self, compile_: Compiler, pushing: Pushing) -> None:
        self._pushing = pushing
        planned = Planned(compile_, pushing)
        self.chains = Chains(compile_, pushing, planned)
        self.batches = Batches(compile_, pushing, planned)

    def push(self, transaction: Transaction, packages: Sequence[Package]) -> list[Pushed]:
        """Store these, in order; the answers are those of `Transactional.push_within`."""
        self._pushing.queue_for_keys(transaction, _taking_keys_now(packages))
        answers: list[Pushed] = []
        for group in _together(packages):
            match group:
                case ChainPush():
                    answers.append(self.chains.push(transaction, group))
                case BatchPush(members=members):
                    pushed = self.batches.push(transaction, group)
                    answers += repeated(members) if pushed is None else pushed
                case _:
                    answers += self._pushing.store(transaction, group)
        return answers

    def tell(self, transaction: Transaction, all_ended: Sequence[Ended]) -> list[Followed]:
        """Let them know, and give what was pushed or dropped for it.

        Rows are locked in one order by all: jobs, chains by id, batches by id, so that nobody waits in a circle.
        """
        links: list[tuple[str, Ended]] = []
        members: dict[str, list[Ended]] = defaultdict(list)
        for ended in all_ended:
            if ended.ties.chain is not None and not ended.ties.is_callback:
                links.append((ended.ties.chain, ended))
            if ended.ties.batch is not None:
                members[ended.ties.batch].append(ended)
        found = [self.chains.tell(transaction, *link) for link in sorted(links, key=lambda link: link[0])]
        followed = [one for one in found if one is not None]
        for batch_id in sorted(members):
            followed += self.batches.tell(transaction, batch_id, members[batch_id])
        return followed


def repeated(pushes: Sequence[Push]) -> list[Pushed]:
    """The answer for what was stored before."""
    return [Pushed(push.envelope.id, stored=False) for push in pushes]


def _taking_keys_now(packages: Sequence[Package]) -> list[Push]:
    """The jobs that are stored with the packages; the others are planned, and take their keys when their turn comes."""
    stored: list[Push] = []
    for package in packages:
        match package:
            case ChainPush(links=links):
                stored += links[:1]
            case BatchPush(members=members):
                stored += members
            case _:
                stored.append(package)
    return stored


def _together(packages: Sequence[Package]) -> Iterator[Sequence[Push] | ChainPush | BatchPush]:
    """The packages in their order, single jobs that follow upon each other together."""
    pushes: list[Push] = []
    for package in packages:
        if isinstance(package, Push):
            pushes.append(package)
            continue
        if pushes:
            yield pushes
            pushes = []
        yield package
    if pushes:
        yield pushes
