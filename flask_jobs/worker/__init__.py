"""The loop that takes jobs from a driver and runs them, in the thread that calls it."""

from .loop import Worker
from .ordering import check_ordering
from .settings import Stop, WorkerSettings

__all__ = ["Stop", "Worker", "WorkerSettings", "check_ordering"]
