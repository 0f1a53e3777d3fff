"""What the shop does later. Importing this module registers the jobs; no app is needed for that."""

from __future__ import annotations

import csv
import datetime as dt
import io

import sqlalchemy as sa

from flask_jobs import Job, current_job

from ..extensions import db, jobs
from ..mailer import send
from ..models import Invoice, Order, OrderStatus, now
from . import documents, letters
from .invoices import invoice_of

PAYMENT_TERM = dt.timedelta(days=14)


@jobs.register("billing.send-invoice")
class SendInvoice(Job):
    """Writes the invoice of an order and mails it.

    A worker may be killed between any two lines of this, and the job then runs again. So each step may be
    repeated: the row is unique, the file is replaced as a whole, and the mail has the same id every time.
    """

    max_attempts = 3
    timeout = 60

    def __init__(self, order: Order) -> None:
        self.order = order

    def handle(self) -> None:
        """Write the row, then the document, then the mail, then remember that it is mailed."""
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
        # Stored with this very commit, so that it is there exactly once, however often this job runs.
        jobs.dispatch(RemindOfPayment(self.order), delay=PAYMENT_TERM)
        db.session.commit()

    def failed(self, error: BaseException) -> None:
        """No attempt is left: somebody has to look at the order."""
        self.order.status = OrderStatus.ON_HOLD
        db.session.commit()


@jobs.register("billing.remind-of-payment")
class RemindOfPayment(Job):
    """Reminds a customer who has not paid when the term is over."""

    queue = "low"

    def __init__(self, order: Order) -> None:
        self.order = order  # a reference: what counts is the state of the order when the job runs

    def handle(self) -> None:
        """Send the reminder, unless the order is paid by now."""
        if self.order.status is OrderStatus.PAID:
            return
        send(letters.reminder_mail(self.order))


@jobs.task("reports.daily-sales", queue="low", max_attempts=5)
def daily_sales(day: dt.date) -> None:
    """Write the sales of one day as a table."""
    midnight = dt.datetime.combine(day, dt.time())
    within = Order.placed_at.between(midnight, midnight + dt.timedelta(days=1, microseconds=-1))
    table = io.StringIO(newline="")
    rows = csv.writer(table)
    rows.writerow(["order", "customer", "net in cents", "status"])
    for order in db.session.scalars(sa.select(Order).where(within).order_by(Order.id)):
        rows.writerow([order.id, order.customer.name, order.net_cents, order.status.value])
    documents.write(documents.report_path(day), table.getvalue())
