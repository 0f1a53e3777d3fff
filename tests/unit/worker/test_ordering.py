from __future__ import annotations

import pytest

from flask_jobs.errors import ConfigurationError
from flask_jobs.worker import check_ordering


@pytest.mark.parametrize("timeout", [10.0, 5.0, 0, None])
def test_f02_without_renewal_a_timeout_must_be_below_the_lease(timeout: float | None):
    with pytest.raises(ConfigurationError) as caught:
        check_ordering({"--timeout": 4, "billing.invoice": timeout}, retry_after=5, renew=False)

    message = str(caught.value)
    assert "billing.invoice" in message
    assert f"timeout {timeout:g} s" in message if timeout else "no timeout" in message
    assert "retry_after 5 s" in message


def test_a_timeout_well_below_the_lease_is_fine():
    check_ordering({"--timeout": 4.5}, retry_after=5, renew=False)


def test_f02_a_timeout_so_near_to_the_end_of_the_lease_that_the_worker_would_be_ended_first_is_none():
    with pytest.raises(ConfigurationError, match=r"not below retry_after 5 s less 0.5 s"):
        check_ordering({"--timeout": 4.6}, retry_after=5, renew=False)


def test_with_renewal_a_job_may_take_as_long_as_it_likes():
    check_ordering({"--timeout": 0, "slow": 500}, retry_after=5, renew=True)
