"""The benchmarks run, and leave a table."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_tiny_run_prints_a_table_with_the_bare_loop_beside_and_names_who_is_left_out() -> None:
    command = [sys.executable, "-m", "benchmarks.run", "--tiny", "--runs", "1", "--store", "SQLite"]
    chosen = ["--measure", "dispatch and drain", "--only", "flask_jobs", "--only", "bare loop", "--only", "Huey"]

    done = subprocess.run([*command, *chosen], cwd=ROOT, capture_output=True, text=True, timeout=100)

    assert done.returncode == 0, done.stderr
    for name in ("flask_jobs", "bare loop"):
        assert re.search(rf"^\| {name} *\|( *[\d.,]+ \|){{3}}", done.stdout, re.MULTILINE), done.stdout
    assert re.search(r"^\| \*\*times the bare loop\*\* *\|( *[\d.]+ \|){3}", done.stdout, re.MULTILINE)
    assert re.search(r"^\| Huey  |^Left out: huey \(", done.stdout, re.MULTILINE)
