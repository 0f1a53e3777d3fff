"""The driver that keeps jobs in this process's memory: for tests, and as the contract in its plainest form."""

from .driver import MemoryDriver

__all__ = ["MemoryDriver"]
