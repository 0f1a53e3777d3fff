"""What is said of jobs that could not be stored after their transaction had committed."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict

from .dispatched import Status
from .errors import PushFailed, Stored
from .items import Item
from .pushes import pushes_in

recovery = logging.getLogger("flask_jobs.recovery")


def push_failed(failures: Sequence[tuple[Sequence[Item], Exception]], raised: Sequence[Exception]) -> PushFailed:
    """The one error for all of them, which has what is needed to push them again; the log has it, too."""
    lost = [item for items, _ in failures for item in items if item.answer.status is Status.FAILED]
    for item in lost:
        _log_for_recovery(item)
    causes = [error for _, error in failures]
    surely = all(getattr(error, "stored", Stored.NO) is Stored.NO for error in causes)
    pushes = [push for item in lost for push in pushes_in(item.package)]
    names = ", ".join(f"{push.envelope.name} {push.envelope.id}" for push in pushes[:20])
    more = f" and {len(pushes) - 20} more" if len(pushes) > 20 else ""
    return PushFailed(
        f"The transaction is committed, but {len(pushes)} of its jobs {'are not' if surely else 'may not be'} stored: "
        f"{names}{more}. {' '.join(map(str, causes))} Pushing them again is safe, for each is stored once by its id: "
        f"{_again(failures)}",
        packages=[item.package for item in lost],
        ids=[item.answer.id for item in lost],
        causes=[*causes, *raised],
    )


def _again(failures: Sequence[tuple[Sequence[Item], Exception]]) -> str:
    if len(failures) > 1:
        return "the log flask_jobs.recovery names the connection of each and has its body."
    connection = failures[0][0][0].connection
    return f"jobs.push_again(error, connection={connection!r}); the log flask_jobs.recovery has them, too."


def _log_for_recovery(item: Item) -> None:
    """Write down what is needed to push the jobs again. A job with sensitive fields is only named."""
    for push in pushes_in(item.package):
        envelope = push.envelope
        stored = {"connection": item.connection, "id": envelope.id, "name": envelope.name, "queue": envelope.queue}
        ties = {} if envelope.ties is None else {"ties": asdict(envelope.ties)}
        body = None if item.sensitive else envelope.body
        recovery.error("not stored after the commit: %s", json.dumps({**stored, **ties, "body": body}))
