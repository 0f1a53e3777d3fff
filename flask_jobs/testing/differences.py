"""What a failed assertion shows: what was pushed, and how the nearest push differs."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fake import PushedJob

SHOWN = 10


def pushed_text(pushed: Sequence[PushedJob]) -> str:
    """The pushes, one a line; the first ones if there are many."""
    if not pushed:
        return "Nothing was pushed."
    lines = [f"  {number}. {_line(push)}" for number, push in enumerate(pushed[:SHOWN], start=1)]
    if len(pushed) > SHOWN:
        lines.append(f"  … and {len(pushed) - SHOWN} more")
    return "\n".join(lines)


def nearest_text(pushed: Sequence[PushedJob], names: Collection[str], where: Callable[[Any], bool] | None) -> str:
    """All that was pushed, and which of it comes nearest to a job of these names."""
    if not pushed:
        return "Nothing was pushed."
    return f"{_nearest(pushed, names, where)}\nPushed were:\n{pushed_text(pushed)}"


def _nearest(pushed: Sequence[PushedJob], names: Collection[str], where: Callable[[Any], bool] | None) -> str:
    same = [push for push in pushed if push.name in names]
    if not same:
        wanted = next(iter(names))
        closest = max(pushed, key=lambda push: difflib.SequenceMatcher(None, wanted, push.name).ratio())
        return f"The nearest is {_line(closest)}: its name is {closest.name!r}, not {wanted!r}."
    if where is not None and not any(where(push.job) for push in same):
        return f"The nearest is {_line(same[-1])}: the condition is false for it."
    return f"The nearest is {_line(same[-1])}."


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
    return ", ".join(parts)
