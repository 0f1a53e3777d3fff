"""What helps to test an application's jobs, and a driver of your own."""

from .fake import FakeQueue, PushedJob
from .run import Result

__all__ = ["FakeQueue", "PushedJob", "Result"]
