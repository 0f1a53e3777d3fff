"""`init-db`: the tables."""

from __future__ import annotations

import click

from .group import jobs_cli
from .output import json_option, show_json
from .target import Target, connection_option


@jobs_cli.command("init-db")
@click.option("--sql", is_flag=True, help="Print the statements instead of running them.")
@connection_option
@json_option
def init_db(*, sql: bool, connection: str | None, as_json: bool) -> None:
    """Make the tables of a connection. Those that are there stay as they are."""
    target = Target.of(connection)
    driver = target.keeps_tables()
    if sql:
        statements = driver.create_sql()
        show_json({"connection": target.name, "sql": statements}) if as_json else click.echo(statements.rstrip())
        return
    driver.prepare()
    if as_json:
        show_json({"connection": target.name, "driver": target.settings.driver, "ready": True})
        return
    click.echo(f"The tables of connection {target.name} are ready.")
