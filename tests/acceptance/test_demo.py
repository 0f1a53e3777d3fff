"""`make demo` keeps what it promises, and cleans up after itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_demo_keeps_all_its_promises(tmp_path: Path) -> None:
    demo = start_demo(tmp_path)
    out, err = demo.communicate(timeout=280)

    assert demo.returncode == 0, out + err
    assert out.count("✓") == 10
    assert "✗" not in out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_demo_ends_all_its_processes_when_it_is_stopped(tmp_path: Path, how: signal.Signals) -> None:
    demo = start_demo(tmp_path)
    assert demo.stdout is not None
    for line in demo.stdout:
        if re.search(r"workers .*started", line):
            break
    children = [pid for child in children_of(demo.pid) for pid in [child, *children_of(child)]]

    demo.send_signal(how)
    demo.communicate(timeout=30)

    left = [pid for pid in children if is_alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert demo.returncode == 130
    assert len(children) == 3  # the shop, the supervisor and its worker
    assert left == []
    assert list(tmp_path.iterdir()) == []


def start_demo(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "example_app.demo"],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(folder), "PYTHONUTF8": "1"},
        # A shell that runs the tests in the background lets them ignore Ctrl-C, and what they start as well.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def children_of(pid: int) -> list[int]:
    table = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [line.split() for line in table.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
