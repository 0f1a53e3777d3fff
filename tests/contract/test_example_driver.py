"""The driver that the documentation shows keeps the contract."""

from __future__ import annotations

import datetime as dt
import importlib.util
import sys
from pathlib import Path

import pytest
import time_machine

from flask_jobs.testing import contract

EXAMPLE = Path(__file__).resolve().parents[2] / "docs/examples/json_driver.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("json_driver", EXAMPLE)
    module = sys.modules["json_driver"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["json_driver"]


class TestJsonFile(contract.Core):
    @pytest.fixture
    def advance(self):
        with time_machine.travel(dt.datetime.now(dt.UTC), tick=True) as traveller:
            yield traveller.shift

    @pytest.fixture
    def open_driver(self, example, tmp_path):
        return lambda: example.JsonFileDriver(
            tmp_path / "jobs.json", retry_after=self.lease, remember_ids=self.remember_ids
        )

    @pytest.fixture
    def driver(self, advance, open_driver):
        return open_driver()

    @pytest.fixture
    def second(self, open_driver):
        return open_driver()
