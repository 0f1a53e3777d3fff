"""A worker adds its lines to the app's logging and changes nothing of it; arguments of jobs stay out of them."""

from __future__ import annotations

import json
import logging
import logging.config
from collections.abc import Iterator
from typing import Any

import pytest

from .app import Brief, Broken, Nap
from .workers import Site, wait_for

NAMES = ["", "app.x", "flask_jobs", "flask_jobs.lifecycle", "flask_jobs.worker.loop", "faults", "sqlalchemy", "flask"]


class Kept(logging.Handler):
    """Keeps the records of the app's own handler."""

    records: list[logging.LogRecord]

    def emit(self, record: logging.LogRecord) -> None:
        self.format(record)
        self.records.append(record)


def configuration(level: str) -> dict[str, Any]:
    """The logging of an app: a handler of its own on the root, a level of its own, a filter."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"named": {"name": ""}},
        "handlers": {"kept": {"()": Kept, "filters": ["named"]}},
        "loggers": {"app.x": {"level": 7, "filters": ["named"]}, "flask_jobs": {"level": level}},
        "root": {"level": "WARNING", "handlers": ["kept"]},
    }


def tree() -> dict[str, Any]:
    """The very handlers, filters and levels of the loggers; not copies that look like them."""
    return {
        name: (
            [(id(handler), handler.level, list(handler.filters)) for handler in logger.handlers],
            [id(filter_) for filter_ in logger.filters],
            (logger.level, logger.disabled, logger.propagate),
        )
        for name, logger in ((name, logging.getLogger(name)) for name in NAMES)
    }


@pytest.fixture
def configured() -> Iterator[list[logging.LogRecord]]:
    """The records of an app that has set up its logging; afterwards the logging is as it was."""
    loggers = [logging.getLogger(name) for name in NAMES]
    before = [(list(each.handlers), list(each.filters), each.level, each.disabled) for each in loggers]
    Kept.records = []
    logging.config.dictConfig(configuration("DEBUG"))
    yield Kept.records
    for logger, (handlers, filters, level, disabled) in zip(loggers, before, strict=True):
        logger.handlers[:], logger.filters[:] = handlers, filters
        logger.setLevel(level)
        logger.disabled = disabled


@pytest.mark.parametrize("verbose", [[], ["-v"]])
def test_f47_a_worker_leaves_the_very_handlers_levels_and_filters_in_place(
    site: Site, configured: list[logging.LogRecord], verbose: list[str]
) -> None:
    site.dispatch(Brief(), Broken(), Nap(9, tries=1, limit=0.1))
    before = tree()

    site.drain(*verbose)

    assert tree() == before
    assert len([record for record in configured if record.name == "flask_jobs.lifecycle"]) >= 6


def test_f47_each_record_of_a_job_tells_which_and_none_tells_what_it_was_given(
    site: Site, configured: list[logging.LogRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = site.dispatch(Brief("swordfish"), Broken("swordfish", hook="raises"), Nap(9, tries=2, limit=0.1))
    monkeypatch.setenv("FAULTS_TEARDOWN", "1")

    site.drain()

    of_jobs = [record for record in configured if "worker st" not in record.msg]
    facts = {(record.job_id, record.job_name, record.queue, record.attempt) for record in of_jobs}  # type: ignore[attr-defined]
    names = ["faults.brief", "faults.broken", "faults.nap"]
    ran = {(*pair, "default", attempt) for pair in zip(ids, names, strict=True) for attempt in (0, 1)}
    assert facts == ran | {(ids[2], "faults.nap", "default", 2)}  # 0: as it was dispatched
    assert {record.levelname for record in of_jobs} == {"DEBUG", "INFO", "WARNING", "ERROR"}
    assert {"failed() of job %s (%s) raised.", "A teardown after a job raised ([job:%s])."} <= {
        record.msg for record in of_jobs
    }
    assert all("swordfish" not in f"{vars(record)}" for record in configured)


def test_f47_without_any_logging_the_lines_of_a_real_worker_go_to_stderr(site: Site) -> None:
    site.dispatch(Brief("swordfish"))

    worker = site.work("--stop-when-empty", "-v")

    assert worker.ended() == 0
    assert worker.output == ""
    assert [line for line in worker.lines("DEBUG") if line.endswith(") running")]
    assert [line for line in worker.lines("INFO") if "processed" in line]
    assert "swordfish" not in worker.log


def test_f47_a_real_worker_adds_no_line_where_the_app_has_said_warning(site: Site) -> None:
    site.environment["FAULTS_LOGGING"] = json.dumps(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "handlers": {"err": {"class": "logging.StreamHandler"}},
            "root": {"handlers": ["err"]},
        }
    )
    site.dispatch(Brief(), Broken("swordfish"))

    worker = site.work("--stop-when-empty", "-v")
    wait_for(lambda: site.sizes() == (0, 0, 0, 1))

    assert worker.ended() == 0
    first, second, *_ = worker.log.splitlines()
    assert first.startswith("Worker (pid ")
    assert "faults.broken (queue default, attempt 1) failed: ValueError: no" in second
    assert worker.log.count("[job:") == 1
    assert "swordfish" not in worker.log
