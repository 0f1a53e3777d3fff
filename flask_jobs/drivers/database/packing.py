"""Ties and planned pushes as the text that a column holds."""

from __future__ import annotations

import json
import logging
from typing import Any

from ...envelope import After, At, Envelope, Key, Ties, When
from ...pushes import Push

logger = logging.getLogger(__name__)


def dump_ties(ties: Ties) -> str:
    """The ties as text."""
    return _text(_ties(ties))


def load_ties(text: object, *, job_id: str) -> Ties | None:
    """The ties from a column of the job's row.

    What cannot be read is none, with a line in the log, for it must keep no job from being run: such a job stands
    alone, and its chain or batch is not told of its end.
    """
    if text is None:
        return None
    try:
        return _ties_of(_loaded(text))
    except (ValueError, TypeError, KeyError, RecursionError):
        logger.warning("what ties [job:%s] to a unique key, chain or batch cannot be read: it runs alone", job_id)
        return None


def dump_push(push: Push) -> str:
    """The whole push as text, to be stored when its turn comes."""
    envelope = push.envelope
    return _text(
        {
            "id": envelope.id,
            "name": envelope.name,
            "queue": envelope.queue,
            "body": envelope.body,
            "ties": None if envelope.ties is None else _ties(envelope.ties),
            "due": _when(push.due),
            "front": push.front,
            "retry_until": None if push.retry_until is None else _when(push.retry_until),
        }
    )


def load_push(text: object) -> Push | None:
    """The push from its text; None if it cannot be read."""
    try:
        row = _loaded(text)
        ties = None if row["ties"] is None else _ties_of(row["ties"])
        envelope = Envelope(_str(row["id"]), _str(row["name"]), _str(row["queue"]), _str(row["body"]), ties=ties)
        retry_until = None if row["retry_until"] is None else _when_of(row["retry_until"])
        return Push(envelope, _when_of(row["due"]), bool(row["front"]), retry_until)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def _text(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _loaded(text: object) -> dict[str, Any]:
    if not isinstance(text, str):
        raise TypeError("no text")
    value = json.loads(text)
    if not isinstance(value, dict):
        raise TypeError("no object")
    return value


def _ties(ties: Ties) -> dict[str, object]:
    row: dict[str, object] = {}
    if ties.key is not None:
        row["key"] = [ties.key.digest, ties.key.said, ties.key.until_processing, ties.key.seconds]
    if ties.chain is not None:
        row["chain"] = ties.chain
        row["link"] = ties.link
    if ties.batch is not None:
        row["batch"] = ties.batch
    if ties.is_callback:
        row["callback"] = True
    return row


def _ties_of(row: dict[str, Any]) -> Ties:
    key = row.get("key")
    chain, batch = row.get("chain"), row.get("batch")
    return Ties(
        key=None if key is None else _key_of(*key),
        chain=None if chain is None else _str(chain),
        link=_int(row.get("link", 0)),
        batch=None if batch is None else _str(batch),
        is_callback=bool(row.get("callback")),
    )


def _key_of(digest: object, said: object, until_processing: object, seconds: object) -> Key:
    if seconds is not None and not isinstance(seconds, int | float):
        raise TypeError("no seconds")
    return Key(_str(digest), _str(said), bool(until_processing), seconds)


def _when(when: When) -> list[object]:
    match when:
        case After(seconds):
            return ["after", seconds]
        case At(instant):
            return ["at", instant]


def _when_of(row: list[Any]) -> When:
    kind, amount = row
    return At(float(amount)) if kind == "at" else After(float(amount))


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _int(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError("no number")
    return value
