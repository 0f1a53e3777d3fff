"""The reference leaves nothing out."""

from __future__ import annotations

import inspect
import re

import pytest
from blinker import NamedSignal

import flask_jobs
from flask_jobs import config, driver, errors, events
from flask_jobs.drivers import BUILT_IN
from flask_jobs.registry import OPTIONS
from flask_jobs.testing import FakeQueue, Result, contract

from .pages import ROOT

DOCS = ROOT / "docs"


def told(page: str) -> set[str]:
    """The names that a page tells of: those in code, without their brackets."""
    code = re.findall(r"`([^`\n]+)`", (DOCS / page).read_text("utf-8"))
    return {name for part in code for name in re.findall(r"\w+", part)}


def public(cls: type) -> set[str]:
    return {name for name in vars(cls) if not name.startswith("_")}


def test_every_setting_is_described() -> None:
    own = {key for made in BUILT_IN.values() for key in made.keys}

    assert {*config.KEYS, *config.COMMON, *own} <= told("reference/configuration.md")


def test_every_option_of_a_job_is_described() -> None:
    assert set(OPTIONS) <= told("guides/jobs.md")


def test_every_signal_is_described() -> None:
    signals = {name for name, value in vars(events).items() if isinstance(value, NamedSignal)}

    assert signals <= told("reference/signals.md")
    assert len(signals) == 15


def test_every_error_is_described() -> None:
    own = {name for name, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.JobsError)}

    assert own - {"JobsError"} <= told("reference/errors.md")


@pytest.mark.parametrize("cls", [FakeQueue, Result])
def test_every_assertion_is_described(cls: type) -> None:
    assert public(cls) - {"installed", "name"} <= told("guides/testing.md")


def test_every_method_and_capability_of_a_driver_is_described() -> None:
    capabilities = {name for name, _ in inspect.getmembers(driver, inspect.isclass) if name in vars(driver)}
    claimed = {name for name in capabilities if issubclass(getattr(driver, name), driver.Driver)}

    described = told("writing-a-driver.md")

    methods = {name for name in public(driver.Driver) if inspect.isfunction(getattr(driver.Driver, name))}
    assert methods | claimed | {name for name in contract.__all__ if name != "Contract"} <= described


def test_every_public_name_is_in_the_documentation() -> None:
    everything = set().union(*(told(str(page.relative_to(DOCS))) for page in DOCS.rglob("*.md")))
    in_blocks = set(re.findall(r"\w+", (DOCS / "reference/api.md").read_text("utf-8")))

    assert set(flask_jobs.__all__) <= everything | in_blocks
