"""How a worker's command shows what happens to its jobs, without touching the application's logging."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import click
from blinker import NamedSignal
from flask import Flask

from .. import clock, events, history
from .output import iso, plain

SIGNALS = (
    events.job_dispatched,
    events.job_discarded,
    events.job_processing,
    events.job_processed,
    events.job_released,
    events.job_failed,
    events.job_timed_out,
    events.job_interrupted,
    events.settlement_lost,
    events.lease_expired,
    events.worker_started,
    events.worker_stopping,
    events.worker_idle,
)


class ReadableLines(logging.Formatter):
    """One line per record with the time in UTC and the worker's name."""

    converter = staticmethod(time.gmtime)

    def __init__(self, name: str) -> None:
        called = name.replace("%", "%%")
        super().__init__(f"%(asctime)sZ %(levelname)-7s {called} %(message)s", "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """The record as text that cannot steer a terminal, whatever an error's message says."""
        return "\n".join(plain(line) for line in super().format(record).split("\n"))


@contextmanager
def readable_default(*, verbose: bool, name: str) -> Iterator[None]:
    """Within the block the library's lines go to stderr, if no handler would get them otherwise.

    Where the application has set up logging, nothing is changed.
    """
    logger = logging.getLogger("flask_jobs")
    if logger.hasHandlers():
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ReadableLines(name))
    level = logger.level
    logger.addHandler(handler)
    if level == logging.NOTSET:
        logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def named(name: str) -> Iterator[None]:
    """Within the block the thread, and so each log record made in it, bears the worker's name."""
    thread = threading.current_thread()
    before, thread.name = thread.name, name
    try:
        yield
    finally:
        thread.name = before


@contextmanager
def json_lines(app: Flask, name: str) -> Iterator[None]:
    """Within the block each event of the app's jobs is a line of JSON on stdout."""
    worker = {"worker": name, "pid": os.getpid()}
    with ExitStack() as stack:
        for signal in SIGNALS:
            stack.enter_context(signal.connected_to(_receiver(signal, worker), app))
        yield


def _receiver(signal: NamedSignal, worker: Mapping[str, Any]) -> Callable[..., None]:
    def receive(_sender: Flask, **facts: Any) -> None:
        said = {key: _storable(value) for key, value in facts.items() if key != "job"}
        click.echo(json.dumps({"event": signal.name, "at": iso(clock.now()), **worker, **said}))

    return receive


def _storable(value: object) -> object:
    if isinstance(value, BaseException):
        return history.summary(value)
    return value
