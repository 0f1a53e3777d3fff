"""The store that stands beside no driver keeps the contract."""

import datetime as dt

import pytest
import time_machine

from flask_jobs.stores import MemoryStore
from flask_jobs.testing import contract


class TestMemoryStore(contract.StoreContract):
    @pytest.fixture
    def advance(self):
        with time_machine.travel(dt.datetime.now(dt.UTC), tick=True) as traveller:
            yield traveller.shift

    @pytest.fixture
    def store(self, advance):
        return MemoryStore()

    @pytest.fixture
    def other(self, store):
        return store
