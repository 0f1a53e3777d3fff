"""What a failed assertion shows: what was pushed, and how the nearest push differs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from .pushed import PushedBatch, PushedChain, PushedJob

SHOWN = 10


def pushed_text(pushed: Sequence[PushedJob], *, nothing: str = "Nothing was pushed.") -> str:
    """The pushes, one a line; the first ones if there are many."""
    if not pushed:
        return nothing
    lines = [f"  {number}. {_line(push)}" for number, push in enumerate(pushed[:SHOWN], start=1)]
    if len(pushed) > SHOWN:
        lines.append(f"  … and {len(pushed) - SHOWN} more")
    return "\n".join(lines)


def chains_text(chains: Sequence[PushedChain]) -> str:
    """The chains, one a line."""
    lines = [f"  {number}. {' → '.join(chain.names)}" for number, chain in enumerate(chains[:SHOWN], start=1)]
    return "\n".join(["Chains were:", *lines]) if lines else "No chain was dispatched."


def batches_text(batches: Sequence[PushedBatch]) -> str:
    """The batches, one a line."""
    lines = [
        f"  {number}. {batch.name or 'without a name'}: {', '.join(batch.names) or 'no jobs'}"
        for number, batch in enumerate(batches[:SHOWN], start=1)
    ]
    return "\n".join(["Batches were:", *lines]) if lines else "No batch was dispatched."


@dataclass(frozen=True, slots=True)
class Sought:
    """What an assertion looked for: jobs of these names for which the condition holds.

    `differs` says how a push of such a job is not what was wanted, `distance` how far it is from that.
    """

    names: Collection[str]
    where: Callable[[Any], bool] | None
    differs: Callable[[PushedJob], str]
    distance: Callable[[PushedJob], float]


def nearest_text(pushed: Sequence[PushedJob], sought: Sought) -> str:
    """All that was pushed, and how what comes nearest to the job that was looked for differs from it."""
    if not pushed:
        return "Nothing was pushed."
    return f"{_nearest(pushed, sought)}\nPushed were:\n{pushed_text(pushed)}"


def _nearest(pushed: Sequence[PushedJob], sought: Sought) -> str:
    same = [push for push in pushed if push.name in sought.names]
    if not same:
        wanted = next(iter(sought.names))
        closest = max(pushed, key=lambda push: difflib.SequenceMatcher(None, wanted, push.name).ratio())
        return f"The nearest is {_line(closest)}: its name is {closest.name!r}, not {wanted!r}."
    fitting = [push for push in same if sought.where is None or push.satisfies(sought.where)]
    if not fitting:
        return f"The nearest is {_line(same[-1])}: the condition is false for it."
    closest = min(fitting, key=sought.distance)
    difference = sought.differs(closest)
    return f"The nearest is {_line(closest)}: {difference}." if difference else f"The nearest is {_line(closest)}."


def _line(push: PushedJob) -> str:
    fields = push.state.serializer.describe(push.push.envelope)["fields"]
    arguments = ", ".join(f"{name}={text}" for name, text in fields.items())
    parts = [f"{push.name}({arguments}) on queue {push.queue!r} of {push.connection!r}"]
    if push.delay:
        parts.append(f"due in {push.delay:g} s")
    if push.after_commit:
        parts.append("after a commit")
    if push.push.front:
        parts.append("at the front")
    if push.holder is not None:
        parts.append(f"dropped as a duplicate of {push.holder}")
    return ", ".join(parts)
