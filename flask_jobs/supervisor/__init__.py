"""The process above the workers: it starts them, watches over them, and settles for those that die."""

from .command import own_command_line
from .settings import SupervisorSettings
from .supervisor import Supervisor

__all__ = ["Supervisor", "SupervisorSettings", "own_command_line"]
