"""`retry`: failed jobs back into their queues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from ..driver import StoresFailedJobs
from ..errors import KeyHeld
from ..ids import new_id
from . import exit_codes, parameters
from .group import complain, jobs_cli
from .interruption import Interruption
from .lookup import retried_as
from .output import json_option, show_json_with
from .reports import end_with, progress
from .target import Target, connection_option

Pair = tuple[str, str]


@jobs_cli.command()
@click.argument("ids", nargs=-1, metavar="[ID...|all]")
@click.option("--queue", type=parameters.queue, help="All failed jobs of this queue.")
@click.option("--name", help="All failed jobs of this name.")
@connection_option
@json_option
def retry(*, ids: Sequence[str], queue: str | None, name: str | None, connection: str | None, as_json: bool) -> None:
    """Put failed jobs back into their queues, under new ids.

    By their ids, `all` of them, or those of a queue or name. Jobs that fail while the command runs are left alone.
    Ctrl-C ends it between two portions; run it again for the rest.
    """
    _check(ids, queue, name)
    target = Target.of(connection)
    store = target.failed_store()
    with Interruption() as interruption:
        retrying = Retrying(store, interruption)
        is_bulk = not ids or list(ids) == ["all"]
        pairs = retrying.every(queue, name) if is_bulk else retrying.these(ids)
        if as_json:
            documents = ({"id": old, "new_id": new} for old, new in pairs)
            show_json_with({"connection": target.name}, "retried", documents, retrying.closing())
        else:
            _show(pairs, is_bulk=is_bulk)
    for given in retrying.unknown:
        retried = retried_as(target, parameters.canonical(given))
        complain(f"No failed job has the id {given!r} on connection {target.name!r}{retried}.")
    end_with(retrying.exit_code)


@dataclass(slots=True)
class Retrying:
    """Retries as it is iterated over: each pair of old and new id tells of a job that is back in its queue."""

    store: StoresFailedJobs
    interruption: Interruption
    unknown: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)

    def these(self, ids: Sequence[str]) -> Iterator[Pair]:
        """Retry the jobs with these ids; unknown ones, and those whose unique key is held, are noted."""
        for given in ids:
            if self.interruption.requested:
                return
            job_id, new = parameters.canonical(given), new_id()
            try:
                found = job_id is not None and self.store.retry(job_id, new)
            except KeyHeld as error:
                self.held.append(given)
                complain(str(error))
                continue
            if job_id is not None and found:
                yield job_id, new
            else:
                self.unknown.append(given)

    def every(self, queue: str | None, name: str | None) -> Iterator[Pair]:
        """Retry in portions all jobs that have failed by now, the oldest first."""
        upto = self.store.newest_failed()
        total, count = self.store.count_failed(queue=queue, name=name), 0
        while self.interruption.goes_on():
            portion = self.store.retry_many(new_id, upto=upto, queue=queue, name=name)
            if not portion:
                return
            yield from portion
            count += len(portion)
            if count < total:
                progress(f"{count:,} of {total:,} failed jobs retried")

    def closing(self) -> Iterator[tuple[str, Any]]:
        """What is known at the end."""
        yield "unknown", self.unknown
        yield "held", self.held
        yield "interrupted", self.interruption.requested

    @property
    def exit_code(self) -> int:
        """The code that tells how it ended."""
        if self.interruption.requested:
            return exit_codes.INTERRUPTED
        return exit_codes.ERROR if self.unknown or self.held else exit_codes.OK


def _check(ids: Sequence[str], queue: str | None, name: str | None) -> None:
    is_filtered = queue is not None or name is not None
    if not ids and not is_filtered:
        raise click.UsageError("Say what to retry: ids, 'all', --queue or --name.")
    if "all" in ids and len(ids) > 1:
        raise click.UsageError("'all' stands alone: leave the ids out.")
    if ids and "all" not in ids and is_filtered:
        raise click.UsageError("Give either ids, or --queue and --name.")


def _show(pairs: Iterator[Pair], *, is_bulk: bool) -> None:
    count = 0
    for old, new in pairs:
        click.echo(f"{old} -> {new}")
        count += 1
    if count:
        click.echo(f"{count:,} retried.")
    elif is_bulk:  # of ids of which none could be retried, the errors say all
        click.echo("No failed job matches.")
