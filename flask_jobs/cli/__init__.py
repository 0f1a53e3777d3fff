"""`flask jobs`: the commands. They parse, ask the drivers, and print; nothing is decided here."""

from __future__ import annotations

from . import batches, dispatch, failed, inspect, queues, restart, retry, setup, show, work
from .group import jobs_cli

__all__ = [
    "batches",
    "dispatch",
    "failed",
    "inspect",
    "jobs_cli",
    "queues",
    "restart",
    "retry",
    "setup",
    "show",
    "work",
]
