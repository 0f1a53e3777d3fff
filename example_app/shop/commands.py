"""Commands of the shop: ``flask shop …``."""

from __future__ import annotations

import datetime as dt

import click

from . import statements
from .views import shop


@shop.cli.command("send-statements")
@click.argument("month", type=click.DateTime(["%Y-%m"]))
def send_statements(month: dt.datetime) -> None:
    """Have the statements of a MONTH sent, such as 2026-11."""
    batch = statements.send_all(month.date())
    state = batch.state()
    click.echo(f"The {state.name}: {state.total} to send. `flask jobs batches` shows how far they are.")
