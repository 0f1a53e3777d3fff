"""The contract of a driver, as test classes to inherit.

A driver proves itself with one class in its own tests, which names the store and inherits the core and a class for
each capability that the driver claims::

    from flask_jobs.testing import contract

    class TestMyDriver(contract.Core, contract.RenewableContract, contract.PausableContract):
        @pytest.fixture
        def driver(self, store): ...

        @pytest.fixture
        def second(self, store): ...

        @pytest.fixture
        def advance(self, clock): ...

See `Contract` for what the fixtures must give and which traits can be set. A capability that is claimed, but whose
class is not inherited, fails the suite.
"""

import pytest

pytest.register_assert_rewrite(f"{__name__}.support")

_PARTS = (
    "pushing",
    "popping",
    "room",
    "settling",
    "holding",
    "leases",
    "waiting",
    "operating",
    "failing",
    "on_store",
    "locking",
    "limiting",
    "storing",
    "tables",
    "transactions",
    "keys",
    "chains",
    "on_batches",
    "pruning",
    "batches",
    "claims",
)
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from .batches import RunsBatchesContract  # noqa: E402 - asserts are rewritten only in what is imported later
from .chains import RunsChainsContract  # noqa: E402
from .claims import CapabilityContract  # noqa: E402
from .failing import StoresFailedJobsContract  # noqa: E402
from .holding import HoldingContract  # noqa: E402
from .keys import HoldsKeysContract  # noqa: E402
from .leases import LeaseContract, RenewableContract  # noqa: E402
from .operating import (  # noqa: E402
    ClearableContract,
    InspectableContract,
    PausableContract,
    TracksProgressContract,
)
from .popping import PopContract  # noqa: E402
from .pushing import PushContract  # noqa: E402
from .room import RoomContract  # noqa: E402
from .settling import SettleContract  # noqa: E402
from .storing import KeepsLocksContract, StoreContract  # noqa: E402
from .support import Contract  # noqa: E402
from .tables import KeepsTablesContract  # noqa: E402
from .transactions import TransactionalContract  # noqa: E402
from .waiting import WaitContract  # noqa: E402


class Core(
    CapabilityContract,
    PushContract,
    PopContract,
    RoomContract,
    SettleContract,
    LeaseContract,
    HoldingContract,
    WaitContract,
):
    """What every driver promises."""


__all__ = [
    "ClearableContract",
    "Contract",
    "Core",
    "HoldsKeysContract",
    "InspectableContract",
    "KeepsLocksContract",
    "KeepsTablesContract",
    "PausableContract",
    "RenewableContract",
    "RunsBatchesContract",
    "RunsChainsContract",
    "StoreContract",
    "StoresFailedJobsContract",
    "TracksProgressContract",
    "TransactionalContract",
]
