"""`work`: the supervisor and its workers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import click

from ..driver import Renewable
from ..errors import ConfigurationError
from ..options import WorkerDefaults
from ..supervisor import own_command_line
from ..worker import Assignment, WorkerSettings, check_ordering, margin
from . import parameters
from .early import EarlyCommand
from .group import jobs_cli
from .lifecycle import json_lines, named, readable_default
from .reports import end_with
from .running import (
    ALONE,
    SUPERVISOR,
    Plan,
    own_timeouts,
    refuse_green_threads,
    refuse_platform,
    supervise,
    work_alone,
    work_under,
)
from .target import Target, connection_option


@jobs_cli.command(cls=EarlyCommand)
@connection_option
@click.option("--queue", "queues", type=parameters.queues, metavar="A,B", help="Queues, the most urgent first.")
@click.option(
    "--processes", type=click.IntRange(min=1), default=1, show_default=True, help="How many worker processes."
)
@click.option(
    "--threads", type=click.IntRange(1, 64), default=1, show_default=True, help="Jobs at a time in each process."
)
@click.option("--once", is_flag=True, help="Look once, run what is there, and end.")
@click.option("--stop-when-empty", is_flag=True, help="End when nothing is due.")
@click.option(
    "--max-jobs", type=click.IntRange(min=0), default=0, help="End after so many jobs, each process; 0: no limit."
)
@click.option("--max-time", type=parameters.seconds, default=0, help="End after so many seconds; 0: no limit.")
@click.option(
    "--give-up-after", type=parameters.seconds, default=0, help="End when the store is away for so long; 0: no limit."
)
@click.option(
    "--recycle",
    type=click.IntRange(min=0),
    default=0,
    metavar="JOBS",
    help="A fresh process after so many jobs; 0: never.",
)
@click.option(
    "--memory",
    type=click.FloatRange(min=0),
    default=0,
    metavar="MB",
    help="A fresh process above so much; 0: no limit.",
)
@click.option(
    "--grace", type=parameters.seconds, default=30, show_default=True, help="Seconds that a stop leaves running jobs."
)
@click.option("--sleep", type=parameters.seconds, default=3, show_default=True, help="Longest wait between two looks.")
@click.option("--tries", type=click.IntRange(min=0), help="Attempts of jobs that do not say; 0: no limit.")
@click.option(
    "--timeout", type=parameters.seconds, default=60, show_default=True, help="Seconds per attempt; 0: no limit."
)
@click.option("--backoff", type=parameters.seconds_list, metavar="SECONDS,...", help="Pauses between attempts.")
@click.option("--force", is_flag=True, help="Run jobs also while the app is in maintenance.")
@click.option("--in-process", is_flag=True, help="Run jobs in this very process, for a debugger: no supervisor.")
@click.option("--name", metavar="NAME", help="What the worker is called in its lines, if not worker-1.")
@click.option("--verbose", "-v", is_flag=True, help="Show more, where the app has set up no logging.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document per line and event on stdout.")
def work(
    *,
    connection: str | None,
    queues: list[str] | None,
    processes: int,
    threads: int,
    once: bool,
    stop_when_empty: bool,
    max_jobs: int,
    max_time: float,
    give_up_after: float,
    recycle: int,
    memory: float,
    grace: float,
    sleep: float,
    tries: int | None,
    timeout: float,
    backoff: tuple[float, ...] | None,
    force: bool,
    in_process: bool,
    name: str | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Run jobs until told to stop.

    Starts worker processes and watches over them: what one holds when it dies is settled at once, and another takes
    its place.

    SIGTERM or Ctrl-C ends it when the jobs at work are done, or after --grace; a second one at once. What is cut short
    goes back and loses no attempt. SIGUSR2 pauses, SIGCONT goes on.

    --tries, --timeout and --backoff stand in for jobs that set none themselves.

    Exit codes: 0 after a stop, a limit or an empty queue; 1 after an error, or if a job was cut short; 2 if the
    command line cannot be used; 3 if the store was away for longer than --give-up-after.
    """
    assignment = Assignment.take()
    refuse_platform()
    refuse_green_threads()
    target = Target.of(connection)
    is_renewed = target.settings.renew and isinstance(target.driver, Renewable)
    retry_after = target.settings.retry_after
    # Where nobody renews, a job must have ended a little before its lease.
    lease = None if is_renewed else retry_after - margin(retry_after)
    settings = WorkerSettings(
        queues=tuple(queues or [target.settings.queue]),
        defaults=WorkerDefaults(tries, timeout, backoff, lease=lease),
        sleep=sleep,
        once=once,
        stop_when_empty=stop_when_empty,
        max_jobs=max_jobs or None,
        max_time=max_time or None,
        recycle_after=recycle or None,
        give_up_after=give_up_after or None,
        renew=is_renewed,
        retry_after=retry_after,
        prefetch=target.settings.prefetch,
    )
    _check(target, settings)
    plan = Plan(
        target, settings, processes=processes, threads=threads, grace=grace, memory=memory, name=name, force=force
    )
    command = None if in_process or assignment is not None else _own_command_line()
    with ExitStack() as stack:
        called = _called(plan, assignment, is_supervisor=command is not None)
        stack.enter_context(named(called))
        stack.enter_context(readable_default(verbose=verbose, name=called))
        if as_json:
            stack.enter_context(json_lines(target.state.app, called))
        if assignment is not None:
            end_with(work_under(assignment, replace(plan, name=called)))
        else:
            target.driver.prepare()
            end_with(_start(plan, command, in_process=in_process))


def _own_command_line() -> Sequence[str] | None:
    context = click.get_current_context()
    return own_command_line(*(one.info_name or "" for one in (context.parent, context) if one is not None))


def _called(plan: Plan, assignment: Assignment | None, *, is_supervisor: bool) -> str:
    """The name of this process in its lines."""
    if assignment is None:
        return plan.name or (SUPERVISOR if is_supervisor else ALONE)
    return plan.name if plan.name and plan.processes == 1 else f"{plan.name or ALONE}-{assignment.slot}"


def _start(plan: Plan, command: Sequence[str] | None, *, in_process: bool) -> int:
    """Run the command as the one that somebody has called."""
    if command is not None:
        _announce(plan)
        return supervise(plan, command)
    if plan.processes > 1:
        raise click.UsageError(
            "One process cannot be several: --processes needs a command line of its own to start them."
        )
    _announce(plan)
    if not in_process:
        click.echo("It runs jobs in this process, for no command line has started it: without a supervisor.", err=True)
    return work_alone(plan)


def _check(target: Target, settings: WorkerSettings) -> None:
    """Raise where a worker could run nothing, or could run something twice."""
    if target.driver.runs_inline:
        raise ConfigurationError(
            f"The connection {target.name!r} runs each job where it is dispatched, so there is nothing for a worker. "
            "Name another one with --connection."
        )
    target.state.serializer_for(target.driver)
    timeouts = {"--timeout": settings.defaults.timeout, **own_timeouts(target)}
    check_ordering(timeouts, retry_after=settings.retry_after, renew=settings.renew)


def _announce(plan: Plan) -> None:
    called = "" if plan.name is None else f" {plan.name!r}"
    queues = ", ".join(plan.settings.queues)
    several = [f"{plan.processes} processes"] if plan.processes > 1 else []
    several += [f"{plan.threads} threads each" if several else f"{plan.threads} threads"] if plan.threads > 1 else []
    size = f", {' of '.join(several)}" if several else ""
    click.echo(f"Worker{called} (pid {os.getpid()}) on connection {plan.target.name}, queues {queues}{size}.", err=True)
