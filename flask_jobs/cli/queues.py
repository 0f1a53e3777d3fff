"""`clear`, `pause`, `resume` and `cancel`: queues, and the jobs that wait in them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import click

from ..driver import PORTION, Clearable, Inspectable
from ..events import WorkerEvents
from ..stored import Sizes, State
from . import exit_codes, parameters
from .confirm import confirm, force_option
from .group import jobs_cli
from .interruption import Interruption
from .output import counted_jobs, json_option, show_json
from .reports import Removal, end_with, progress
from .target import Target, connection_option


@jobs_cli.command()
@click.argument("queue", type=parameters.queue, required=False)
@click.option("--queue", "option", type=parameters.queue, help="The same as the argument.")
@force_option
@connection_option
@json_option
def clear(*, queue: str | None, option: str | None, force: bool, connection: str | None, as_json: bool) -> None:
    """Delete the jobs that wait in a QUEUE; in the connection's own if none is given. Running ones are not touched."""
    if queue is not None and option is not None:
        raise click.UsageError("QUEUE and --queue say the same: give one of them.")
    target = Target.of(connection)
    driver = target.clearable()
    emptied = queue or option or target.settings.queue
    size = driver.size(emptied)
    if waiting := size.ready + size.delayed:
        what = counted_jobs(waiting, "waiting")
        confirm(f"delete {what} from queue {emptied!r} of connection {target.name!r}", force=force)
    with Interruption() as interruption:
        count = _clear(driver, emptied, size, interruption)
    if as_json:
        document = {"connection": target.name, "queue": emptied, "cleared": count}
        show_json({**document, "interrupted": interruption.requested})
    else:
        click.echo(f"{counted_jobs(count)} deleted from queue {emptied}.")
    end_with(exit_codes.INTERRUPTED if interruption.requested else exit_codes.OK)


@jobs_cli.command()
@click.argument("queue", type=parameters.queue)
@click.option("--for", "span", type=parameters.seconds, metavar="SECONDS", help="Until so many seconds from now.")
@connection_option
@json_option
def pause(*, queue: str, span: float | None, connection: str | None, as_json: bool) -> None:
    """Give out no jobs from a queue, for a while or until it is resumed."""
    target = Target.of(connection)
    pausable, near = target.pausable(), _misspelt(target, queue)
    pausable.pause(queue, seconds=span)
    WorkerEvents(target.state.app, target.name).paused(queue, seconds=span)
    if as_json:
        show_json({"connection": target.name, "queue": queue, "paused": True, "seconds": span})
        return
    end = "until it is resumed" if span is None else f"for {span:g} s"
    click.echo(f"Queue {queue} is paused {end}.")
    if near is not None:
        click.echo(f"It holds no jobs. Did you mean {near}?", err=True)


@jobs_cli.command()
@click.argument("queue", type=parameters.queue)
@connection_option
@json_option
def resume(*, queue: str, connection: str | None, as_json: bool) -> None:
    """Give out the jobs of a paused queue again."""
    target = Target.of(connection)
    was_paused = target.pausable().resume(queue)
    if was_paused:
        WorkerEvents(target.state.app, target.name).resumed(queue)
    if as_json:
        show_json({"connection": target.name, "queue": queue, "resumed": was_paused})
        return
    click.echo(f"Queue {queue} is resumed." if was_paused else f"Queue {queue} was not paused.")


@jobs_cli.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@force_option
@connection_option
@json_option
def cancel(*, ids: Sequence[str], force: bool, connection: str | None, as_json: bool) -> None:
    """Delete waiting jobs by their ids. Running ones are not touched."""
    target = Target.of(connection)
    driver = target.inspectable()
    removal = Removal()
    waiting = [job_id for given in ids if (job_id := _waits(driver, given, removal)) is not None]
    if waiting:
        confirm(f"delete {counted_jobs(len(waiting), 'waiting')} from connection {target.name!r}", force=force)
    for job_id in waiting:
        if driver.cancel(job_id):
            removal.done.append(job_id)
        elif _waits(driver, job_id, removal) is not None:  # it was running for a moment
            removal.running.append(job_id)
    removal.show(target, "cancelled", "No waiting job has the id", as_json=as_json)


def _waits(driver: Inspectable, given: str, removal: Removal) -> str | None:
    """The id of a job that waits; what is unknown or runs is noted, and None."""
    job_id = parameters.canonical(given)
    job = None if job_id is None else driver.find(job_id)
    if job is None:
        removal.unknown.append(given)
    elif job.state is State.RESERVED:
        removal.running.append(job.envelope.id)
    else:
        return job_id
    return None


def _misspelt(target: Target, queue: str) -> str | None:
    """The queue that may be meant where this one holds nothing; None where it does, or none has a name like it."""
    if not isinstance(target.driver, Inspectable) or queue in (known := target.driver.queues()):
        return None
    near = difflib.get_close_matches(queue, {*known, target.settings.queue}, n=1)
    return near[0] if near and near[0] != queue else None


def _clear(driver: Clearable, queue: str, size: Sizes, interruption: Interruption) -> int:
    """Delete in portions as many jobs as waited at the start, so that busy producers cannot make it endless."""
    left, total = size.ready + size.delayed, 0
    while left > 0 and interruption.goes_on():
        count = driver.clear(queue, limit=min(left, PORTION))
        if not count:
            break
        left, total = left - count, total + count
        if left:
            progress(f"{counted_jobs(total)} deleted")
    return total
