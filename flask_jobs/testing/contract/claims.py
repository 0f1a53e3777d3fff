"""A driver proves every capability that it claims."""

from __future__ import annotations

from typing import ClassVar

from ... import driver as port
from ...driver import Driver
from .support import Contract

CAPABILITIES = frozenset(
    capability
    for capability in vars(port).values()
    if isinstance(capability, type) and issubclass(capability, Driver) and capability is not Driver
)


class CapabilityContract(Contract):
    """Compares what the driver inherits with the test classes that are inherited for it."""

    capability: ClassVar[type[Driver]]

    def test_every_claimed_capability_is_proven_and_no_other(self, driver: Driver) -> None:
        claimed = {capability for capability in CAPABILITIES if isinstance(driver, capability)}
        proven = {tests.__dict__["capability"] for tests in type(self).__mro__ if "capability" in tests.__dict__}

        assert claimed == proven
