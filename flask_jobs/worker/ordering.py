"""The rule between time limits and leases."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import ConfigurationError


def margin(retry_after: float) -> float:
    """How many seconds before the end of a lease its holder must have ended, so that no second start overlaps it."""
    return min(2.0, max(0.3, retry_after / 10))


def check_ordering(timeouts: Mapping[str, float | None], *, retry_after: float, renew: bool) -> None:
    """Raise `ConfigurationError` when a job could outlive its lease, so that a second copy would start beside it.

    `timeouts`: seconds by what sets them (``--timeout``, a job's name); 0 or None is no limit. With renewal on, a
    job may take as long as it likes.
    """
    if renew:
        return
    for source, timeout in timeouts.items():
        if timeout and timeout <= retry_after - margin(retry_after):
            continue
        limit = f"timeout {timeout:g} s" if timeout else "no timeout"
        raise ConfigurationError(
            f"{source} has {limit}, which is not below retry_after {retry_after:g} s{_less(timeout, retry_after)}, and "
            "renew is off: a job that "
            "takes longer than its lease would be started a second time beside itself. "
            "Lower the timeout, raise retry_after, or turn renew on."
        )


def _less(timeout: float | None, retry_after: float) -> str:
    return f" less {margin(retry_after):g} s" if timeout and timeout < retry_after else ""
