"""The store that stands beside no driver. Those of the database and of Redis are parts of their drivers."""

from .memory import MemoryStore

__all__ = ["MemoryStore"]
