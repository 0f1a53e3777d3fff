"""The load: jobs of all kinds, as a seed has them, each made known to the ledger before it is pushed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.chaos.app import Callback, Exclusive, Labelled, Limited, Plain, Poison, Unique, jobs
from tests.chaos.ledger import Ledger

_LONG, _SHARE_OF_LONG = 0.2, 0.02
_SHORTEST, _LONGEST = 0.001, 0.03
_KEYS = 20


class Load:
    """Pushes jobs burst by burst, within an app context."""

    def __init__(self, ledger: Ledger, dice: random.Random, *, with_poison: bool = True) -> None:
        self._ledger = ledger
        self._dice = dice
        self._with_poison = with_poison
        self._bursts = 0
        self.made = 0

    def push(self) -> None:
        """Push some forty jobs."""
        plain = [self._plain() for _ in range(20)]
        jobs.dispatch_many(plain)
        for _ in range(3):
            jobs.dispatch(self._plain(), delay=self._dice.uniform(0.1, 1.5))
            jobs.dispatch(Limited(self._made("limited"), self._seconds()))
            jobs.dispatch(Exclusive(self._made("exclusive", key=(key := self._key())), key))
            self._unique()
        self._chain()
        self._batch(poisoned=False)
        if self._with_poison and self._bursts % 10 == 0:
            jobs.dispatch(self._poison())
        if self._with_poison and self._bursts % 20 == 5:
            self._batch(poisoned=True)
        self._bursts += 1

    def _made(self, kind: str, **facts: object) -> str:
        label = f"{kind}-{self.made}"
        self.made += 1
        self._ledger.note("made", label=label, kind=kind, **facts)
        return label

    def _seconds(self) -> float:
        is_long = self._dice.random() < _SHARE_OF_LONG
        return _LONG if is_long else self._dice.uniform(_SHORTEST, _LONGEST)

    def _key(self) -> str:
        return f"key-{self._dice.randrange(_KEYS)}"

    def _plain(self, **facts: object) -> Labelled:
        return Plain(self._made("plain", **facts), self._seconds())

    def _poison(self, **facts: object) -> Poison:
        attempts = self._dice.choice([2, 3])
        return Poison(self._made("poison", attempts=attempts, **facts), attempts)

    def _unique(self) -> None:
        key, label = self._key(), f"unique-{self.made}"
        if jobs.dispatch(Unique(label, key)):
            self._made("unique", key=key)

    def _chain(self) -> None:
        name = f"chain-{self.made}"
        jobs.chain([self._plain(chain=name, link=number) for number in range(3)])

    def _batch(self, *, poisoned: bool) -> None:
        name = f"batch-{self.made}"
        members: Sequence[Labelled] = [self._plain(batch=name) for _ in range(4)]
        if poisoned:
            members = [*members, self._poison(batch=name)]
        roles = ("catch", "finally_") if poisoned else ("then", "finally_")
        callbacks = {role: Callback(self._made("callback", of=name, role=role)) for role in roles}
        jobs.batch(members, allow_failures=True, **callbacks)
