"""Monthly statements: one mail to each customer, counted together as a batch."""

from __future__ import annotations

import datetime as dt

import sqlalchemy as sa

from flask_jobs import Batch, current_job

from ..extensions import db, jobs
from ..mailer import send
from ..models import Customer, Order
from . import letters
from .mailing import MailingJob


def send_all(month: dt.date) -> Batch:
    """Have the statements of all customers sent who ordered in the month that begins on this day."""
    customers = db.session.scalars(sa.select(Customer).where(Customer.orders.any(_within(month))).order_by(Customer.id))
    return jobs.batch(
        [SendStatement(customer, month) for customer in customers],
        name=f"statements of {month:%Y-%m}",
        allow_failures=True,  # one full mailbox is no reason to let the others wait
        finally_=ReportStatements(month),
    )


def month_of(text: str) -> dt.date:
    """The first day of a month, given as ``2026-11``. Raises `ValueError` for anything else."""
    return dt.datetime.strptime(text, "%Y-%m").date()


@jobs.register("statements.send")
class SendStatement(MailingJob):
    """Mails a customer what was ordered in a month."""

    queue = "low"
    can_wait = True

    def __init__(self, customer: Customer, month: dt.date) -> None:
        self.customer = customer
        self.month = month

    def handle(self) -> None:
        """Look the orders up and send the mail."""
        theirs = sa.select(Order).where(Order.customer == self.customer, _within(self.month)).order_by(Order.id)
        send(letters.statement_mail(self.customer, self.month, db.session.scalars(theirs).all()))


@jobs.register("statements.report")
class ReportStatements(MailingJob):
    """Tells the office how the statements of a month went, when the last of them has ended."""

    queue = "low"

    def __init__(self, month: dt.date) -> None:
        self.month = month

    def handle(self) -> None:
        """Mail the counts."""
        assert current_job.batch is not None
        send(letters.statements_report(self.month, current_job.batch))


def _within(month: dt.date) -> sa.ColumnElement[bool]:
    begin = dt.datetime.combine(month, dt.time())
    next_month = (begin + dt.timedelta(days=31)).replace(day=1)
    return sa.and_(Order.placed_at >= begin, Order.placed_at < next_month)
