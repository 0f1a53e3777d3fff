"""The Lua scripts: each transition is one, called by its hash and sent again when the server does not know it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from ... import clock
from ...config import Clock
from .client import Server, UnknownScript

Argument = str | bytes | int

_USES = re.compile(r"-- uses: (.+)\n")
_PART = re.compile(r"(\w+)(\(?)|\)")


@dataclass(frozen=True, slots=True)
class Script:
    """A script's whole text and the hash that the server knows it by."""

    text: str
    digest: str


@cache
def load(name: str) -> Script:
    """The script of this name, with the parts that its first line says it uses before it."""
    body = _read(name)
    uses = _USES.match(body)
    text = "".join([*_parts(uses.group(1) if uses else ""), body])
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


def _parts(uses: str) -> Iterator[str]:
    """The texts of parts. Those in ``name(...)`` make up a function, so that they cost nothing before it is called."""
    for name, opens in _PART.findall(uses):
        if opens:
            yield f"local function {name}()\n"
        else:
            yield _read(name) if name else "end\n"


def _read(name: str) -> str:
    return resources.files(__package__).joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


class Scripts:
    """Runs scripts for one connection: under its head of keys, by its clock."""

    def __init__(self, server: Server, head: str, *, remember_ids: float, retry_after: float, clock: Clock) -> None:
        self._server = server
        self._head = head
        self._remember_ids = repr(remember_ids)
        self._retry_after = repr(retry_after)
        self._present: Callable[[], str] = _local_time if clock == "local" else _no_time

    def run(self, name: str, *arguments: Argument) -> Any:
        """The answer of the script, all text in it as bytes."""
        script = load(name)
        call = (1, self._head, self._present(), self._remember_ids, self._retry_after, *arguments)
        try:
            return self._server.run("EVALSHA", script.digest, *call)
        except UnknownScript:
            return self._server.run("EVAL", script.text, *call)

    def now(self) -> float:
        """The store's present."""
        present = self._present()
        if present:
            return float(present)
        seconds, microseconds = self._server.run("TIME")
        return int(seconds) + int(microseconds) / 1_000_000


def _local_time() -> str:
    return repr(clock.now())


def _no_time() -> str:
    return ""
