from __future__ import annotations

import click
from flask import Blueprint

from ..extensions import db, jobs
from .work import Bill, Customer

blueprint = Blueprint("billing", __name__, template_folder="templates")


@blueprint.get("/bills/<int:customer_id>")
def show(customer_id: int) -> str:
    return f"bill of {customer_id}"


@blueprint.post("/bills/<int:customer_id>")
def order(customer_id: int) -> str:
    return jobs.dispatch(Bill(db.session.get_one(Customer, customer_id))).id


@blueprint.cli.command("send")
@click.argument("customer_id", type=int)
def send(customer_id: int) -> None:
    click.echo(jobs.dispatch(Bill(db.session.get_one(Customer, customer_id))).id)
