"""What the shop does later. Importing this module registers the jobs; no app is needed for that.

A worker may be killed between any two lines of a job, and the job then runs again. So each step may be repeated: the
payment has a key, the invoice's row is unique, a file is replaced as a whole, a mail has the same id every time.
"""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Sequence

import sqlalchemy as sa

from flask_jobs import Dispatched, Job, Middleware, WithoutOverlapping, current_job

from .. import payments
from ..extensions import db, jobs
from ..mailer import send
from ..models import Invoice, Order, OrderStatus, now
from . import documents, letters
from .invoices import invoice_of
from .mailing import MailingJob

REVIEW_AFTER = dt.timedelta(days=14)


def fulfil(order: Order) -> Dispatched:
    """Hand over all that is to be done for an order: each step when the one before it has succeeded."""
    return jobs.chain([ChargeOrder(order), SendInvoice(order), ShipOrder(order)], catch=HoldOrder(order))


@jobs.register("billing.charge-order")
class ChargeOrder(Job):
    """Charges the customer's card with what the invoice will say."""

    def __init__(self, order: Order) -> None:
        self.order = order  # a reference: what counts is the order as it is when the job runs

    def handle(self) -> None:
        """Ask the payment provider, and note its answer. A bank that says no is not asked again."""
        if self.order.payment is not None:
            return
        total = invoice_of(self.order).total_cents
        try:
            self.order.payment = payments.charge(f"order-{self.order.id}", total, self.order.customer.card)
        except payments.CardDeclined as error:
            current_job.fail(error)
        self.order.status = OrderStatus.CHARGED
        db.session.commit()


@jobs.register("billing.send-invoice")
class SendInvoice(MailingJob):
    """Writes the invoice of an order and mails it."""

    def __init__(self, order: Order) -> None:
        self.order = order

    def handle(self) -> None:
        """Write the document, then the mail, then remember that it is mailed."""
        invoice = invoice_of(self.order)
        if invoice.mailed_at is not None:
            return
        current_job.progress(1, 3, f"printing {invoice.number}")
        documents.write(documents.invoice_path(invoice), letters.invoice_page(invoice))
        invoice.printed = True
        db.session.commit()
        current_job.progress(2, 3, f"mailing {invoice.number}")
        send(letters.invoice_mail(invoice))
        self._finish(invoice)

    def _finish(self, invoice: Invoice) -> None:
        invoice.mailed_at = now()
        self.order.status = OrderStatus.INVOICED
        db.session.commit()


@jobs.register("warehouse.ship-order")
class ShipOrder(Job):
    """Prints the label by which the warehouse sends the parcel off."""

    def __init__(self, order: Order) -> None:
        self.order = order

    def middleware(self) -> Sequence[Middleware]:
        """There is one label printer: while another order has it, this one comes back a little later."""
        return [WithoutOverlapping("label-printer")]

    def handle(self) -> None:
        """Print the label, and ask for a review when there was time to try the tea."""
        if self.order.shipped_at is not None:
            return
        documents.write(documents.label_path(self.order), letters.parcel_label(self.order))
        self.order.shipped_at = now()
        self.order.status = OrderStatus.SHIPPED
        # Stored with this very commit, so that it is there exactly once, however often this job runs.
        jobs.dispatch(AskForReview(self.order), delay=REVIEW_AFTER)
        db.session.commit()


@jobs.register("orders.hold")
class HoldOrder(MailingJob):
    """Runs when a step of an order has failed for good: nothing more happens to it until somebody has looked."""

    def __init__(self, order: Order) -> None:
        self.order = order

    def handle(self) -> None:
        """Put the order on hold, and tell the customer, unless it was put right and shipped by now."""
        if self.order.shipped_at is not None:
            return
        self.order.status = OrderStatus.ON_HOLD
        db.session.commit()
        send(letters.hold_mail(self.order))


@jobs.register("orders.ask-for-review")
class AskForReview(MailingJob):
    """Asks a customer how it was, some time after the parcel has left."""

    queue = "low"
    can_wait = True

    def __init__(self, order: Order) -> None:
        self.order = order

    def handle(self) -> None:
        """Send the letter, unless the order has come back by now."""
        if self.order.status is OrderStatus.RETURNED:
            return
        send(letters.review_mail(self.order))


@jobs.task("reports.daily-sales", queue="low", max_attempts=5, unique=True, unique_id=lambda day: day.isoformat())
def daily_sales(day: dt.date) -> None:
    """Write the sales of one day as a table. Asked for twice before it is done, it is written once."""
    midnight = dt.datetime.combine(day, dt.time())
    within = Order.placed_at.between(midnight, midnight + dt.timedelta(days=1, microseconds=-1))
    table = io.StringIO(newline="")
    rows = csv.writer(table)
    rows.writerow(["order", "customer", "net in cents", "status"])
    for order in db.session.scalars(sa.select(Order).where(within).order_by(Order.id)):
        rows.writerow([order.id, order.customer.name, order.net_cents, order.status.value])
    documents.write(documents.report_path(day), table.getvalue())
