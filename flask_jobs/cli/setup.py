"""`init-db`: the tables."""

from __future__ import annotations

import click

from ..driver import KeepsTables
from .group import jobs_cli
from .output import json_option, show_json
from .target import Target, connection_option


@jobs_cli.command("init-db")
@click.option("--sql", is_flag=True, help="Print the statements instead of running them.")
@connection_option
@json_option
def init_db(*, sql: bool, connection: str | None, as_json: bool) -> None:
    """Make the tables of a connection. Those that are there stay as they are; a store without tables needs nothing."""
    target = Target.of(connection)
    driver = target.driver if isinstance(target.driver, KeepsTables) else None
    if sql:
        statements = "" if driver is None else driver.create_sql()
        show_json({"connection": target.name, "sql": statements}) if as_json else click.echo(statements.rstrip())
        return
    if driver is not None:
        driver.prepare()
    if as_json:
        show_json({"connection": target.name, "driver": target.settings.driver, "ready": True})
    elif driver is None:
        click.echo(f"Connection {target.name} (driver {target.settings.driver}) needs no tables.")
    else:
        click.echo(f"The tables of connection {target.name} are ready.")
