"""The rule between time limits and leases."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import ConfigurationError


def check_ordering(timeouts: Mapping[str, float | None], *, retry_after: float, renew: bool) -> None:
    """Raise `ConfigurationError` when a job could outlive its lease, so that a second copy would start beside it.

    `timeouts`: seconds by what sets them (``--timeout``, a job's name); 0 or None is no limit. With renewal on, a
    job may take as long as it likes.
    """
    if renew:
        return
    for source, timeout in timeouts.items():
        if timeout and timeout < retry_after:
            continue
        limit = f"timeout {timeout:g} s" if timeout else "no timeout"
        raise ConfigurationError(
            f"{source} has {limit}, which is not below retry_after {retry_after:g} s, and renew is off: a job that "
            "takes longer than its lease would be started a second time beside itself. "
            "Lower the timeout, raise retry_after, or turn renew on."
        )
