"""What helps to test an application's jobs, and a driver of your own."""

from .fake import FakeQueue
from .pushed import PushedJob
from .run import Result

__all__ = ["FakeQueue", "PushedJob", "Result"]
