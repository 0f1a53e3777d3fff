"""Pushing in portions, each of them one script."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...errors import ConnectionLost, StoreRefused
from ...pushes import Push, Pushed
from ...validation import queue_name
from .arguments import push_arguments, push_portions
from .scripts import Argument
from .values import decoded

Answers = Sequence[int | bytes]
"""For each job 1 if it was stored, 0 if its id was known, or the id of the job that holds its unique key."""

Send = Callable[[list[Argument], bool], Answers | None]
"""Runs the script that stores a portion; is told whether it is the last one."""


def push_all(pushes: Sequence[Push], send: Send) -> list[Pushed] | None:
    """Send the jobs in portions, an empty one if there are none; None if nothing takes them.

    A portion is stored whole or not at all; an error says how many jobs were stored before it.
    """
    for push in pushes:
        queue_name(push.envelope.queue)
    portions = list(push_portions(pushes)) or [()]
    pushed: list[Pushed] = []
    for number, portion in enumerate(portions, 1):
        arguments = push_arguments(portion)  # not of all at once, for they are as large as the bodies
        try:
            answers = send(arguments, number == len(portions))
        except (ConnectionLost, StoreRefused) as error:
            if pushed:
                error.add_note(f"{len(pushed)} of {len(pushes)} jobs were stored before.")
            raise
        if answers is None:
            return None
        pushed += [pushed_as(push, answer) for push, answer in zip(portion, answers, strict=True)]
    return pushed


def pushed_as(push: Push, answer: int | bytes) -> Pushed:
    """What the script says of one job."""
    holder = None if isinstance(answer, int) else decoded(answer)
    return Pushed(push.envelope.id, stored=answer == 1, holder=holder)
