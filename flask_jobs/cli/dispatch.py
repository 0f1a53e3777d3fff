"""`dispatch`: a registered job by its name, with fields from the command line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import click

from ..dispatched import Options
from ..state import current_state
from . import parameters
from .arguments import job_class, load_model, make_job, read_fields
from .group import jobs_cli
from .output import json_option, show_json
from .target import Target, connection_option


@jobs_cli.command()
@click.argument("name")
@click.option("--field", "pairs", multiple=True, metavar="KEY=VALUE", help="One field: JSON, @model:key, or text.")
@click.option("--json-fields", metavar="JSON", help="Fields as one JSON object.")
@click.option("--queue", type=parameters.queue, help="The queue, if not the job's own.")
@click.option("--delay", type=parameters.seconds, help="Due in so many seconds.")
@click.option("--id", "job_id", type=parameters.job_id, metavar="UUID", help="Its id; a repetition stores it once.")
@connection_option
@json_option
def dispatch(
    *,
    name: str,
    pairs: Sequence[str],
    json_fields: str | None,
    queue: str | None,
    delay: float | None,
    job_id: str | None,
    connection: str | None,
    as_json: bool,
) -> None:
    """Dispatch a job by its registered NAME.

    The fields are the arguments of its class, or of its function. A value that can be read as JSON is that value,
    @order:7 is the registered model "order" with the key 7, anything else is text.
    """
    state = current_state()
    cls = job_class(state.registry, name)
    load = partial(load_model, state.registry, lambda: state.sessions.current())
    job = make_job(cls, name, read_fields(pairs, json_fields, load))
    target = Target.of(connection or job.connection)
    # Nobody commits here, so a job that wants to wait for a commit would never be sent.
    options = Options(queue, target.name, delay, after_commit=False, id=job_id)
    dispatched = state.dispatcher.dispatch(job, options)
    if as_json:
        status = dispatched.status.value
        show_json({"connection": target.name, "id": dispatched.id, "name": name, "status": status})
        return
    click.echo(f"{dispatched.id} {dispatched.status.value}: {name} on connection {target.name}")
