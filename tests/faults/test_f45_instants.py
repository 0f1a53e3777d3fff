"""An instant means the same in every time zone: what is stored are seconds since the epoch, by the store's clock."""

import datetime as dt

import pytest

from .support import answer, start


def utc(*parts):
    return dt.datetime(*parts, tzinfo=dt.UTC).timestamp()


@pytest.mark.parametrize("clock", ["store", "local"])
def test_f45_stored_instants_do_not_depend_on_the_zone_of_any_process(tmp_path, clock):
    file = tmp_path / "jobs.db"

    pushed_at, web_zone = answer(start("instants.py", file, clock, "push", TZ="America/Phoenix"))
    stored, worker_zone = answer(start("instants.py", file, clock, "show", TZ="Asia/Kolkata"))

    expected = {
        "seconds": pushed_at + 5,
        "timedelta": pushed_at + 5,
        "aware": pushed_at + 5,
        "summer": utc(2031, 3, 30, 1, 30),
        "autumn-first": utc(2031, 10, 26, 0, 30),
        "autumn-second": utc(2031, 10, 26, 1, 30),
    }
    assert web_zone != worker_zone
    for name, instant in expected.items():
        assert stored[name] == pytest.approx([instant, instant, pushed_at], abs=1.0)
