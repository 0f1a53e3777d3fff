"""The benchmarks run, and leave tables."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NUMBERS = r"\|( *[\d.,]+ \|)"
TINY = ("--tiny", "--runs", "1", "--store", "SQLite", "--only", "flask_jobs")


@pytest.mark.slow
def test_a_tiny_run_prints_a_table_with_the_bare_loop_beside_and_names_who_is_left_out(tmp_path: Path) -> None:
    chosen = ["--measure", "dispatch and drain", "--only", "bare loop", "--only", "Huey"]
    written = tmp_path / "RESULTS.md"

    printed = _printed("-m", "benchmarks.run", *TINY, *chosen, "--write", str(written))

    for name in ("flask_jobs", "bare loop"):
        assert re.search(rf"^\| {name} *{NUMBERS}{{3}}", printed, re.MULTILINE), printed
    assert re.search(r"^\| \*\*times the bare loop\*\* *\|( *[\d.]+ \|){3}", printed, re.MULTILINE)
    assert re.search(r"^\| Huey  |^Left out: huey \(", printed, re.MULTILINE)
    assert re.search(rf"^\| signed *{NUMBERS}{{2}}", printed, re.MULTILINE), printed
    glance = written.read_text().split("\n\n")[1]
    assert re.search(r"^\| SQLite, times the bare loop *\|( *[\d.]+ \|){3}", glance, re.MULTILINE)


@pytest.mark.slow
def test_what_fails_in_a_run_is_left_out_with_its_reason_and_the_rest_is_measured() -> None:
    breaking = (
        "from benchmarks import run\n"
        "def broken(stage, amounts): raise ZeroDivisionError('there are no figures')\n"
        "run.MEASURES['two processes'] = broken\n"
        "run.main()\n"
    )
    chosen = ["--measure", "two processes", "--measure", "dispatch and drain"]

    printed = _printed("-c", breaking, *TINY, *chosen)

    assert re.search(rf"^\| flask_jobs *{NUMBERS}{{3}}", printed, re.MULTILINE), printed
    reason = r"\(ZeroDivisionError: there are no figures\)"
    assert re.search(rf"^Left out: two processes of flask_jobs on SQLite {reason}\.$", printed, re.MULTILINE)


@pytest.mark.slow
def test_the_executor_alone_is_measured_with_signing_and_without() -> None:
    printed = _printed("-m", "benchmarks.executor", "--jobs", "20", "--repeats", "2")

    for kind in ("signed", "JOBS_SIGN off"):
        assert re.search(rf"^\| {kind} *{NUMBERS}{{2}}$", printed, re.MULTILINE), printed


def _printed(*arguments: str) -> str:
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return done.stdout
