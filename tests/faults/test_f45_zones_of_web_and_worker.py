"""A job starts when it was meant to, whatever time zones the web and its workers live in."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from flask_jobs.errors import InvalidArgument

from .app import Brief
from .workers import Site, wait_for

pytestmark = pytest.mark.alone


def test_f45_delays_dispatched_in_phoenix_are_kept_in_kolkata(site: Site) -> None:
    site.work(TZ="Asia/Kolkata").started()

    web = site.flask("dispatch-for-later", TZ="America/Phoenix")
    assert web.ended() == 0, web.log
    meant = json.loads(web.output)
    wait_for(lambda: len(site.ledger("end")) == len(meant))

    began = {line["label"]: line["at"] for line in site.ledger("begin")}
    late = {label: began[label] - instant for label, instant in meant.items()}
    assert set(late) == {"seconds", "duration", "in Berlin", "in Lord Howe"}
    assert min(late.values()) > -0.01, late
    assert max(late.values()) < 1, late


def test_f45_a_naive_instant_is_refused_and_nothing_is_stored(site: Site) -> None:
    with pytest.raises(InvalidArgument, match="without a time zone"):
        site.dispatch(Brief(), delay=datetime(2031, 1, 1))

    assert site.sizes() == (0, 0, 0, 0)
