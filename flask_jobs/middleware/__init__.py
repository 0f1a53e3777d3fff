"""Middleware that most applications need: limits, locks, a circuit breaker, and plain conditions."""

from .conditions import FailOnException, Skip
from .locks import ConcurrencyLimit, WithoutOverlapping
from .rate_limited import RateLimited
from .throttles_exceptions import ThrottlesExceptions

__all__ = [
    "ConcurrencyLimit",
    "FailOnException",
    "RateLimited",
    "Skip",
    "ThrottlesExceptions",
    "WithoutOverlapping",
]
