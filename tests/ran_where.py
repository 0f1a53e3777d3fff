"""Which tests ran on which server, told by the connections that they used, and shown in a table at the end."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import ConnectionPoolEntry

_used: set[str] = set()
_reasons: dict[str, str] = {}


def note_used(server: str) -> None:
    """The test that runs has used this server: its name and version."""
    _used.add(server)


def note_missing(server: str, why: str) -> None:
    """Tests that are skipped for this reason are so for want of the server."""
    _reasons[why] = server


@sa.event.listens_for(sa.pool.Pool, "connect")
def _name(connection: Any, entry: ConnectionPoolEntry) -> None:
    entry.info[_SERVER] = _database(connection)


@sa.event.listens_for(sa.pool.Pool, "checkout")
def _note(_connection: object, entry: ConnectionPoolEntry, _proxy: object) -> None:
    server = entry.info.get(_SERVER)
    if server is not None:
        note_used(server)


_SERVER = "tests.server"


def _database(connection: Any) -> str | None:
    match type(connection).__module__.partition(".")[0]:
        case "sqlite3":
            return f"SQLite {sqlite3.sqlite_version}"
        case "psycopg":
            return f"PostgreSQL {_numbered(connection.info.server_version)} (psycopg)"
        case "psycopg2":
            return f"PostgreSQL {_numbered(connection.server_version)} (psycopg2)"
        case "pymysql":
            return _of_mysql(str(connection.get_server_info()))
    return None


def _numbered(version: int) -> str:
    return f"{version // 10_000}.{version % 10_000}"


def _of_mysql(said: str) -> str:
    parts = said.split("-")
    if "MariaDB" in parts:
        return f"MariaDB {parts[parts.index('MariaDB') - 1]}"
    return f"MySQL {parts[0]}"


KINDS = ("contract", "faults", "others")


@dataclass
class Row:
    """How the tests on one server ended, by their kind."""

    passed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)

    def cells(self) -> list[str]:
        """What the table shows of each kind."""
        return [self._cell(kind) for kind in KINDS]

    def _cell(self, kind: str) -> str:
        counts = {"": self.passed[kind], " failed": self.failed[kind], " skipped": self.skipped[kind]}
        return ", ".join(f"{count}{word}" for word, count in counts.items() if count) or "-"


class RanWhere:
    """Collects from all processes of the tests what ran where. A plugin of pytest."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        """Count from here what the next test uses."""
        _used.clear()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        """Let the report tell, which comes from the process of the test to the one that prints."""
        report: Any = yield
        if report.when == "call" or not report.passed:
            report.servers = _most_telling(_used)
            report.missing = _reasons.get(_reason(report))
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Count a test's end."""
        kind = _kind(report.nodeid)
        for server in getattr(report, "servers", ()):
            row = self._rows.setdefault(server, Row())
            {"passed": row.passed, "failed": row.failed, "skipped": row.skipped}[report.outcome][kind] += 1
        if getattr(report, "missing", None):
            self._rows.setdefault(f"{report.missing}: not there", Row()).skipped[kind] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, if any test used a server."""
        if not self._rows:
            return
        terminalreporter.section("which tests ran where")
        lines = [["", *KINDS], *([server, *row.cells()] for server, row in sorted(self._rows.items()))]
        widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
        for line in lines:
            first, *cells = zip(line, widths, strict=True)
            terminalreporter.write_line("  ".join([first[0].ljust(first[1]), *(text.rjust(to) for text, to in cells)]))


def _reason(report: Any) -> str:
    """Why the test was skipped, or failed where none may be skipped."""
    said = report.longrepr
    return str(said[2] if isinstance(said, tuple) else said).removeprefix("Skipped: ")


def _kind(nodeid: str) -> str:
    folder = nodeid.removeprefix("tests/").partition("/")[0]
    return folder if folder in KINDS else "others"


def _most_telling(used: set[str]) -> list[str]:
    """The servers; SQLite, where most tests keep the app's own data, only when there is no other."""
    others = [server for server in used if not server.startswith("SQLite")]
    return sorted(others or used)
