"""How commands speak: one JSON document, or tables and lines for people."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from .. import clock

if TYPE_CHECKING:
    from rich.console import Console

json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout, and nothing else.")

Row = Mapping[str, Any]

PIPE_WIDTH = 1_000
"""How many columns a table may have where it is read by another program."""

ID_WIDTH = 36
"""How many characters a job id has."""

_FIRST, _LAST = -62_135_596_800.0, 253_402_300_799.0
"""The seconds of the years 1 and 9999 beyond which no calendar goes."""


def iso(instant: float | None) -> str | None:
    """The instant in ISO 8601 and UTC, to the millisecond."""
    if instant is None:
        return None
    text = clock.as_datetime(min(max(instant, _FIRST), _LAST)).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def show_json(document: Row) -> None:
    """Print the document. ASCII, so that no encoding of a terminal or pipe can garble it."""
    click.echo(json.dumps(document, indent=2))


def show_json_with(document: Row, key: str, items: Iterable[Row], closing: Iterable[tuple[str, Any]] = ()) -> None:
    """Print the document with a list under `key`, each item as soon as it is there.

    `closing` is asked for further keys when the list has ended. The document is whole even if an error ends it.
    """
    click.echo(f"{json.dumps(document, indent=2)[:-2]},\n  {json.dumps(key)}: [", nl=False)
    separator = ""
    try:
        for item in items:
            click.echo(f"{separator}\n    {json.dumps(item)}", nl=False)
            separator = ","
    finally:
        click.echo("\n  ]" if separator else "]", nl=False)
        for name, value in closing:
            click.echo(f",\n  {json.dumps(name)}: {json.dumps(value)}", nl=False)
        click.echo("\n}")


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table as wide as the terminal. Ids are never cut, the other columns give way to them.

    In a pipe nothing is cut short of `PIPE_WIDTH`, unless COLUMNS says otherwise.
    """
    # Imported where tables are shown, for a worker shows none and is to start fast.
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, min_width=ID_WIDTH if column == "ID" else None, no_wrap=column == "ID")
    for row in rows:
        table.add_row(*(Text(plain(cell), no_wrap=True, overflow="ellipsis") for cell in row))
    _console().print(table)


def show_facts(facts: Iterable[tuple[str, object]]) -> None:
    """Print names and values in two columns; long values go on in the next line."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, Text(plain(value)))
    _console().print(table)


def show_lines(lines: Iterable[str]) -> None:
    """Print lines as they are, each going on where the terminal ends."""
    for line in lines:
        click.echo(plain(line))


def counted_jobs(count: int, kind: str = "") -> str:
    """So many jobs of a kind, in words: ``1 failed job``, ``1,200 jobs``."""
    return " ".join(filter(None, (f"{count:,}", kind, "job" if count == 1 else "jobs")))


def plain(value: object) -> str:
    """The value as text that cannot steer a terminal: what cannot be printed is shown as an escape."""
    text = "-" if value is None else str(value)
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    return " " if character == "\t" else character.encode("unicode_escape").decode("ascii")


def _console() -> Console:
    from rich.console import Console

    # Made for each use, because stdout may have been replaced since the last one.
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(width=width, highlight=False, markup=False, emoji=False, soft_wrap=False)
