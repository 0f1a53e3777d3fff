"""The memory driver keeps the contract."""

import datetime as dt

import pytest
import time_machine

from flask_jobs.drivers.memory import MemoryDriver
from flask_jobs.testing import contract


class TestMemory(
    contract.Core,
    contract.RenewableContract,
    contract.HoldsKeysContract,
    contract.RunsChainsContract,
    contract.RunsBatchesContract,
    contract.TracksProgressContract,
    contract.KeepsLocksContract,
    contract.InspectableContract,
    contract.ClearableContract,
    contract.PausableContract,
    contract.StoresFailedJobsContract,
):
    @pytest.fixture
    def advance(self):
        with time_machine.travel(dt.datetime.now(dt.UTC), tick=True) as traveller:
            yield traveller.shift

    @pytest.fixture
    def driver(self, advance):
        return MemoryDriver(retry_after=self.lease, remember_ids=self.remember_ids)

    @pytest.fixture
    def second(self, driver):
        return driver
