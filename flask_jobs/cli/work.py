"""`work`: the worker."""

from __future__ import annotations

import os
from contextlib import ExitStack

import click

from ..driver import Renewable
from ..errors import ConfigurationError
from ..job import is_set
from ..options import WorkerDefaults
from ..worker import Worker, WorkerSettings, check_ordering
from . import parameters
from .group import jobs_cli
from .lifecycle import json_lines, named, readable_default
from .reports import end_with
from .target import Target, connection_option


@jobs_cli.command()
@connection_option
@click.option("--queue", "queues", type=parameters.queues, metavar="A,B", help="Queues, the most urgent first.")
@click.option("--once", is_flag=True, help="Look once, run what is there, and end.")
@click.option("--stop-when-empty", is_flag=True, help="End when nothing is due.")
@click.option("--max-jobs", type=click.IntRange(min=0), default=0, help="End after so many jobs; 0: no limit.")
@click.option("--max-time", type=parameters.seconds, default=0, help="End after so many seconds; 0: no limit.")
@click.option(
    "--give-up-after", type=parameters.seconds, default=0, help="End when the store is away for so long; 0: no limit."
)
@click.option("--sleep", type=parameters.seconds, default=3, show_default=True, help="Longest wait between two looks.")
@click.option("--tries", type=click.IntRange(min=0), help="Attempts of jobs that do not say; 0: no limit.")
@click.option(
    "--timeout", type=parameters.seconds, default=60, show_default=True, help="Seconds per attempt; 0: no limit."
)
@click.option("--backoff", type=parameters.seconds_list, metavar="SECONDS,...", help="Pauses between attempts.")
@click.option("--name", metavar="NAME", help="A name for the worker, shown in its lines.")
@click.option("--verbose", "-v", is_flag=True, help="Show more, where the app has set up no logging.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document per line and event on stdout.")
def work(
    *,
    connection: str | None,
    queues: list[str] | None,
    once: bool,
    stop_when_empty: bool,
    max_jobs: int,
    max_time: float,
    give_up_after: float,
    sleep: float,
    tries: int | None,
    timeout: float,
    backoff: tuple[float, ...] | None,
    name: str | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run jobs until told to stop.

    SIGTERM or Ctrl-C ends it after its current job, a second one cuts that job short and puts it back.

    --tries, --timeout and --backoff stand in for jobs that set none themselves.

    Exit codes: 0 after a stop, a limit or an empty queue; 1 after an error, or if a job was cut short; 2 if the
    command line cannot be used; 3 if the store was away for longer than --give-up-after.
    """
    target = Target.of(connection)
    settings = WorkerSettings(
        queues=tuple(queues or [target.settings.queue]),
        defaults=WorkerDefaults(tries, timeout, backoff),
        sleep=sleep,
        once=once,
        stop_when_empty=stop_when_empty,
        max_jobs=max_jobs or None,
        max_time=max_time or None,
        give_up_after=give_up_after or None,
        renew=target.settings.renew and isinstance(target.driver, Renewable),
        retry_after=target.settings.retry_after,
    )
    _check(target, settings)
    with ExitStack() as stack:
        stack.enter_context(named(name))
        stack.enter_context(readable_default(verbose=verbose, name=name))
        if as_json:
            stack.enter_context(json_lines(target.state.app, name))
        _announce(target, settings, name)
        end_with(_run(target, settings))


def _check(target: Target, settings: WorkerSettings) -> None:
    """Raise where a worker could run nothing, or could run something twice."""
    if target.driver.runs_inline:
        raise ConfigurationError(
            f"The connection {target.name!r} runs each job where it is dispatched, so there is nothing for a worker. "
            "Name another one with --connection."
        )
    target.state.serializer_for(target.driver)
    timeouts = {"--timeout": settings.defaults.timeout}
    for name, cls in target.state.registry.jobs().items():
        if is_set(cls, "timeout") and cls.timeout is not None:
            timeouts[name] = cls.timeout
    check_ordering(timeouts, retry_after=settings.retry_after, renew=settings.renew)
    target.driver.prepare()


def _announce(target: Target, settings: WorkerSettings, name: str | None) -> None:
    called = "" if name is None else f" {name!r}"
    queues = ", ".join(settings.queues)
    click.echo(f"Worker{called} (pid {os.getpid()}) on connection {target.name}, queues {queues}.", err=True)


def _run(target: Target, settings: WorkerSettings) -> int:
    events = target.state.events(target.name)
    return Worker(target.driver, target.state.executor(target.name), events=events, settings=settings).run().exit_code
