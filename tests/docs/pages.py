"""The pages of the documentation and how their examples are run.

- A Python block after a comment ``<!-- file: app.py -->`` is written into that file.
- Any other Python block is executed, all of a page in one namespace (see `stage.open_shop`).
- In a console block each line that begins with ``$`` is run, and the lines below it must be in its output, in order;
  ``…`` stands for anything, and one job id for another. Its exit code must be 0, unless ``echo $?`` follows.

What a page need not show, but an example needs, stands in a comment ``<!-- code: python``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sybil import Document, Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

from .stage import ID, Stage

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

_FILE = re.compile(r"<!-- file: (\S+) -->\n\s*$")
_python = PythonEvaluator()


def parsed(page: Path, stage: Stage) -> Document:
    """The page, with its examples bound to the stage."""

    def run_python(example: Example) -> None:
        name = _FILE.search(example.document.text[: example.region.start])
        if name is None:
            _python(example)
        else:
            (stage.folder / name[1]).write_text(example.parsed, encoding="utf-8")

    def run_console(example: Example) -> None:
        _run_console(example.parsed, stage)

    parsers = [CodeBlockParser("python", run_python), CodeBlockParser("console", run_console)]
    document = Sybil(parsers).parse(page)
    document.namespace = stage.names
    document.namespace["pages"] = page.parent
    return document


def _run_console(text: str, stage: Stage) -> None:
    commands = list(_commands(text))
    following = [command for command, _ in commands[1:]] + [""]
    for (command, expected), after in zip(commands, following, strict=True):
        said = stage.run(command)
        assert stage.exit_code == 0 or "echo $?" in (command, after), (
            f"$ {command}\nexits with {stage.exit_code}\n{said}"
        )
        _check(command, expected, said)


def _commands(text: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, output = part.replace("\\\n", " ").partition("\n")
        yield command.partition("  #")[0].strip(), output


def _check(command: str, expected: str, said: str) -> None:
    rest = _plain(said)
    for fragment in filter(None, (part.strip() for part in _plain(expected).split("…"))):
        _, found, rest = rest.partition(fragment)
        assert found, f"$ {command}\ndoes not say {fragment!r} (from there on), but\n{said}"


def _plain(text: str) -> str:
    return " ".join(ID.sub("ID", text).split())
