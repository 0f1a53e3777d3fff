"""The loop that takes jobs from a driver and runs them in the thread that calls it, and the process around it."""

from .alarm import Cutter
from .assignment import Assignment, Supervised
from .carrier import Carrier
from .crew import Crew
from .farewell import Bench, Farewell
from .loop import Worker
from .memory import too_much
from .ordering import check_ordering, margin
from .post import Post, spared
from .settings import Stop, WorkerSettings
from .signals import PauseSignals

__all__ = [
    "Assignment",
    "Bench",
    "Carrier",
    "Crew",
    "Cutter",
    "Farewell",
    "PauseSignals",
    "Post",
    "Stop",
    "Supervised",
    "Worker",
    "WorkerSettings",
    "check_ordering",
    "margin",
    "spared",
    "too_much",
]
