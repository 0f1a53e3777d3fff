"""`restart`: telling workers, through the store, to make room for new code."""

from __future__ import annotations

import click

from .. import restarts
from .group import jobs_cli
from .output import json_option, show_json
from .target import Target, connection_option


@jobs_cli.command()
@connection_option
@json_option
def restart(*, connection: str | None, as_json: bool) -> None:
    """Let all workers of a connection leave after their current job.

    Their process manager starts them again, with the code and the settings of then. Does not wait for it.
    """
    target = Target.of(connection)
    restarts.ask(target.store())
    if as_json:
        show_json({"connection": target.name, "asked": True})
        return
    click.echo(
        f"Workers of connection {target.name} will leave after their current job; "
        "their process manager starts them again."
    )
