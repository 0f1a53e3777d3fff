from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from flask import current_app, g, render_template, url_for
from sqlalchemy.orm import Mapped, mapped_column

from flask_jobs import Job, current_job

from ..extensions import db, jobs


def note(*facts: Any) -> None:
    with Path(current_app.config["LEDGER"]).open("a") as ledger:
        ledger.write(json.dumps(facts) + "\n")


@jobs.model("customer")
class Customer(db.Model):  # type: ignore[name-defined,misc]
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]


@jobs.register("bill")
class Bill(Job):
    """Uses what jobs use: config, session, template, URL."""

    def __init__(self, customer: Customer) -> None:
        self.customer = customer

    def handle(self) -> None:
        g.noted_as = "bill"
        page = render_template("bill.txt", customer=self.customer)
        link = url_for("billing.show", customer_id=self.customer.id, _external=True)
        count = db.session.query(Customer).count()
        note("bill", current_job.attempt, current_app.config["CURRENCY"], page, link, count)


@jobs.register("flaky")
class Flaky(Job):
    """Fails in its first attempt."""

    backoff = 0

    def handle(self) -> None:
        g.noted_as = f"flaky {current_job.attempt}"
        note("flaky", current_job.attempt)
        if current_job.attempt == 1:
            raise ValueError("the first attempt")


@jobs.register("mark")
class Mark(Job):
    """Says in which app it ran."""

    def __init__(self, word: str) -> None:
        self.word = word

    def handle(self) -> None:
        note("mark", self.word)
