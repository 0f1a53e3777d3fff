"""Stored values as readable text for operators. Runs no code of the user's and makes no value."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from .codec import DEPTH, JSON, MISREAD, READERS

HIDDEN = "[hidden]"
"""Stands for a value that is not shown."""

CHARACTERS = 300
"""How much of a value is shown; a mark says that there is more."""


def readable(raw: JSON) -> str:
    """A stored value as text, shortened."""
    text = _text(raw, 0)
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]} … [{len(text) - CHARACTERS} more characters]"


def names_in(raw: JSON) -> set[str]:
    """The strings in a stored list or tuple of strings; one string stands for itself."""
    parts = raw.get("$tuple") if isinstance(raw, dict) else [raw] if isinstance(raw, str) else raw
    return {part for part in parts if isinstance(part, str)} if isinstance(parts, list) else set()


def _text(raw: JSON, depth: int) -> str:
    if depth > DEPTH:
        return "…"
    if isinstance(raw, list):
        return f"[{_joined(raw, depth)}]"
    if not isinstance(raw, dict):
        return repr(raw)
    if len(raw) == 1:
        ((tag, stored),) = raw.items()
        if tag.startswith("$"):
            return _tagged(tag, stored, depth)
    return f"{{{', '.join(f'{key!r}: {_text(value, depth + 1)}' for key, value in raw.items())}}}"


def _tagged(tag: str, stored: JSON, depth: int) -> str:
    try:
        return _PARTED[tag](stored, depth) if tag in _PARTED else _shown(READERS[tag](stored))
    except MISREAD:
        return "[unreadable]"


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, int):
        return hex(value)  # a decimal of more than 4,300 digits is refused by Python
    return repr(value) if isinstance(value, str) else str(value)


def _joined(parts: Collection[JSON], depth: int) -> str:
    return ", ".join(_text(part, depth + 1) for part in parts)


def _tuple(stored: JSON, depth: int) -> str:
    return f"({_joined(stored, depth)}{',' if len(stored) == 1 else ''})"


def _set(stored: JSON, depth: int) -> str:
    return f"{{{_joined(stored, depth)}}}" if stored else "set()"


def _frozenset(stored: JSON, depth: int) -> str:
    return f"frozenset({_set(stored, depth) if stored else ''})"


def _pairs(stored: JSON, depth: int) -> str:
    pairs = (f"{_text(key, depth + 1)}: {_text(value, depth + 1)}" for key, value in stored)
    return f"{{{', '.join(pairs)}}}"


def _model(stored: JSON, depth: int) -> str:
    name, identity = stored
    return f"{name}#{','.join(_text(part, depth + 1).strip(chr(39)) for part in identity)}"


def _named(stored: JSON, depth: int) -> str:
    name, value = stored
    return f"{name}({_text(value, depth + 1)})"


def _dataclass(stored: JSON, depth: int) -> str:
    name, fields = stored
    return f"{name}({', '.join(f'{field}={_text(value, depth + 1)}' for field, value in fields.items())})"


_PARTED: Mapping[str, Callable[[JSON, int], str]] = {
    "$tuple": _tuple,
    "$set": _set,
    "$frozenset": _frozenset,
    "$dict": _pairs,
    "$model": _model,
    "$enum": _named,
    "$codec": _named,
    "$data": _dataclass,
}
