"""What the documentation says is what happens: every example of every page is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import PAGES, ROOT, parsed
from .stage import set_stage

DIRECTIVES = {"{toctree}", "{eval-rst}", "{literalinclude}", "{include}"}
LANGUAGES = {"python", "console", "text", "ini", "sql", "dockerfile", *DIRECTIVES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with set_stage(tmp_path, monkeypatch) as stage:
        for example in parsed(page, stage).examples():
            example.evaluate()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_block_of_a_page_is_of_a_kind_that_is_overlooked(page: Path) -> None:
    kinds = re.findall(r"^\s*(?:`{3,}|~{3,})([^\s`]+)", page.read_text("utf-8"), re.MULTILINE)

    assert set(kinds) <= LANGUAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_other_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text("utf-8"))

    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_tells_to_install_another_project(page: Path) -> None:
    assert not re.search(r"pip install[^\n]*\bflask[-_]jobs\b", page.read_text("utf-8"))
