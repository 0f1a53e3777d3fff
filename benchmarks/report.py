"""What was measured, as a table for each store (medians, how far runs lie apart), and how we compare."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .contenders import BARE, OURS, Contender
from .workloads import Figures

COLUMNS = {
    "dispatch/s": True,
    "dispatch_many/s": True,
    "drain/s, 1 process": True,
    "drain/s, 2 processes": True,
    "10 ms jobs/s, 32 at once": True,
    "pick-up p50, ms": False,
    "pick-up p99, ms": False,
    "idle, % of a core": False,
    "idle, MB": False,
}
"""The figures, and whether more of it is better."""


@dataclass(slots=True)
class Row:
    """What one contender did on one store, run after run."""

    contender: Contender
    figures: dict[str, list[float]] = field(default_factory=dict)

    def add(self, figures: Figures) -> None:
        """Note what one more run has shown."""
        for name, value in figures.items():
            self.figures.setdefault(name, []).append(value)

    def median(self, name: str) -> float | None:
        """The middle of its runs, None if there are none."""
        return statistics.median(self.figures[name]) if name in self.figures else None


@dataclass(slots=True)
class Sheet:
    """All rows of one store, with its name and its version."""

    store: str
    version: str
    rows: list[Row]


def table(sheet: Sheet) -> str:
    """All that was measured on one store, and how it compares."""
    lines = [[f"{sheet.store} {sheet.version}", *COLUMNS]]
    lines += [[row.contender.name, *(_cell(row.figures.get(name, [])) for name in COLUMNS)] for row in sheet.rows]
    lines += [[f"**{who}**", *cells] for who, cells in _comparisons(sheet.rows)]
    return rows_of(lines)


def at_a_glance(sheets: Sequence[Sheet]) -> str:
    """How flask_jobs compares, store by store."""
    lines = [["flask_jobs at a glance", *COLUMNS]]
    lines += [[f"{sheet.store}, {who}", *cells] for sheet in sheets for who, cells in _comparisons(sheet.rows)]
    return rows_of(lines)


def rows_of(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table that can be read as it is; the first line is its head."""
    head, *others = lines
    ruled = [head, ["-", *("-:" for _ in head[1:])], *others]
    widths = [max(len(line[column]) for line in ruled) for column in range(len(head))]
    return "\n".join(_line(line, widths) for line in ruled)


def _comparisons(rows: Sequence[Row]) -> list[tuple[str, list[str]]]:
    """Ours beside the best peer of each column, where there is a peer, and beside the bare loop."""
    others = [("times the best peer", _is_peer), ("times the bare loop", _is_bare)]
    return [
        (who, [_beside(rows, name, is_other) for name in COLUMNS])
        for who, is_other in others
        if any(is_other(row) for row in rows)
    ]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = [
        cell.replace("-", "-" * (width - len(cell) + 1)) if cell in ("-", "-:") else cell
        for cell, width in zip(cells, widths, strict=True)
    ]
    padded = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
    return f"| {' | '.join(padded)} |"


def _cell(values: Sequence[float]) -> str:
    """The median, and half of what lies between the least and the most in percent of it."""
    if not values:
        return "–"
    median = statistics.median(values)
    spread = 50 * (max(values) - min(values)) / median if median else 0
    return _shown(median) + (f" ±{spread:.0f}%" if len(values) > 1 else "")


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _is_bare(row: Row) -> bool:
    return row.contender.name == BARE


def _is_peer(row: Row) -> bool:
    return row.contender.peer not in ("flask_jobs", "bare")


def _beside(rows: Sequence[Row], name: str, is_other: Callable[[Row], bool]) -> str:
    """How many times as good ours is as the best of the others."""
    ours = next((row.median(name) for row in rows if row.contender.name == OURS), None)
    theirs = [(value, row.contender.name) for row in rows if is_other(row) and (value := row.median(name))]
    if not ours or not theirs:
        return "–"
    value, who = (max if COLUMNS[name] else min)(theirs)
    times = ours / value if COLUMNS[name] else value / ours
    return f"{times:.2f}" + ("" if who == BARE else f" ({who})")
