"""The code in the README runs as it stands there."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the files that the README tells to write."""
    for name, code in re.findall(r"<!-- file: (\S+) -->\n```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL):
        (tmp_path / name).write_text(code, encoding="utf-8")
    return tmp_path


def run(project: Path, *command: str) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("FLASK_", "PYTEST_"))}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=project,
        env=environment | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def post(project: Path, path: str) -> str:
    code = f"from app import create_app; print(create_app().test_client().post({path!r}).json['job'])"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_the_quick_start_greets(project: Path) -> None:
    post(project, "/greet/Ada")

    assert "Hello, Ada!" in run(project, "flask", "jobs", "work", "--once")
    assert (project / "instance").is_dir()


def test_the_quick_start_fails_and_is_retried(project: Path) -> None:
    post(project, "/greet/Nobody")

    run(project, "flask", "jobs", "work", "--max-jobs", "3")
    (failed,) = json.loads(run(project, "flask", "jobs", "failed", "--json"))["failed"]
    explanation = run(project, "flask", "jobs", "explain", failed["id"])
    run(project, "flask", "jobs", "retry", failed["id"])

    assert "there is nobody to greet" in explanation
    assert "welcome.greet" in run(project, "flask", "jobs", "list")


def test_the_tests_of_the_readme_pass(project: Path) -> None:
    assert "3 passed" in run(project, "pytest", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", ".")


def test_the_readme_never_tells_to_install_another_project() -> None:
    assert not re.search(r"pip install[^\n]*\bflask[-_]jobs\b", README.read_text("utf-8"))
